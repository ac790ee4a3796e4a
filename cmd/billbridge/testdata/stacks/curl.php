<?php
// Posts each line "URL BODY" with curl. Prints "STATUS REPLY", or "error" and its text. With an argument each call has
// a new connection.
$curl = curl_init();
curl_setopt_array($curl, [
    CURLOPT_POST => true,
    CURLOPT_RETURNTRANSFER => true,
    CURLOPT_HTTPHEADER => ['Content-Type: application/json'],
    CURLOPT_FRESH_CONNECT => $argc > 1,
]);
while (($line = fgets(STDIN)) !== false) {
    [$url, $body] = explode(' ', rtrim($line, "\n"), 2);
    curl_setopt($curl, CURLOPT_URL, $url);
    curl_setopt($curl, CURLOPT_POSTFIELDS, $body);
    $reply = curl_exec($curl);
    $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
    $said = $reply === false ? 'error ' . curl_error($curl) : "$status $reply";
    echo str_replace("\n", ' ', $said), "\n";
}
