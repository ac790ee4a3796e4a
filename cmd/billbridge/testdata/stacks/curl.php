<?php
// Reads lines "URL BODY", posts each with curl, and prints "STATUS REPLY", or "error" and its text. With an argument each call has a new connection.
$curl = curl_init();
curl_setopt_array($curl, [CURLOPT_POST => true, CURLOPT_RETURNTRANSFER => true, CURLOPT_HTTPHEADER => ['Content-Type: application/json']]);
curl_setopt($curl, CURLOPT_FRESH_CONNECT, $argc > 1);
while (($line = fgets(STDIN)) !== false) {
    [$url, $body] = explode(' ', rtrim($line, "\n"), 2);
    curl_setopt($curl, CURLOPT_URL, $url);
    curl_setopt($curl, CURLOPT_POSTFIELDS, $body);
    $reply = curl_exec($curl);
    $said = $reply === false ? 'error ' . curl_error($curl) : curl_getinfo($curl, CURLINFO_RESPONSE_CODE) . ' ' . $reply;
    echo str_replace("\n", ' ', $said), "\n";
}
