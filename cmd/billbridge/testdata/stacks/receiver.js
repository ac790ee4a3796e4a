// Receives callbacks at an address with Node's http, prints each body as a line, and answers 0000.
const [host, port] = process.argv.slice(2);
require('http').createServer(async (request, answer) => {
  let body = '';
  for await (const part of request) body += part;
  console.log(body.replaceAll('\n', ' '));
  answer.setHeader('Content-Type', 'application/json');
  answer.end('{"code":"0000"}');
}).listen(port, host);
