// Posts each line "URL BODY" with axios. Prints "STATUS REPLY", or "error" and what was thrown.
const axios = require('axios');
(async () => {
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const [url, body] = line.split(/ (.*)/);
    let said;
    try {
      const reply = await axios.post(url, JSON.parse(body));
      said = `${reply.status} ${JSON.stringify(reply.data)}`;
    } catch (e) {
      said = e.response ? `${e.response.status} ${JSON.stringify(e.response.data)}` : `error ${e}`;
    }
    console.log(said.replaceAll('\n', ' '));
  }
})();
