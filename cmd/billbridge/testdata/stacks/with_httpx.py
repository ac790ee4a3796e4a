# Posts each line "URL BODY" with httpx. Prints "STATUS REPLY", or "error" and what was raised.
import sys

import httpx

client = httpx.Client()
for line in sys.stdin:
    url, body = line.rstrip("\n").split(" ", 1)
    try:
        reply = client.post(url, content=body, headers={"Content-Type": "application/json"})
        said = f"{reply.status_code} {reply.text}"
    except Exception as e:
        said = f"error {e!r}"
    print(said.replace("\n", " "), flush=True)
