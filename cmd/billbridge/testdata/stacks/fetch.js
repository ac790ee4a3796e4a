// Posts each line "URL BODY" with fetch. Prints "STATUS REPLY", or "error" and what was thrown.
(async () => {
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const [url, body] = line.split(/ (.*)/);
    let said;
    try {
      const reply = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
      said = `${reply.status} ${await reply.text()}`;
    } catch (e) {
      said = `error ${e} ${e.cause}`;
    }
    console.log(said.replaceAll('\n', ' '));
  }
})();
