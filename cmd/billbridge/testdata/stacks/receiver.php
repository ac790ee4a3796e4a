<?php
// Receives callbacks with PHP's own server, prints each body as a line, and answers 0000.
file_put_contents('php://stdout', str_replace("\n", ' ', file_get_contents('php://input')) . "\n");
header('Content-Type: application/json');
echo '{"code":"0000"}';
