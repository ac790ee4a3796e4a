"""The test system of a partner that speaks v2, with the order hook of the practice desk. It needs Python 3 only.

    BILLING_KEY=the-key-of-the-test-system python3 shop.py
"""
import hashlib, json, os, threading, time, urllib.error, urllib.request, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = os.environ["BILLING_KEY"]
BILLING = os.environ.get("BILLING_URL", "http://127.0.0.1:8081")
PORT = int(os.environ.get("SHOP_PORT", "3000"))
TIMEOUT = float(os.environ.get("SHOP_TIMEOUT", "5"))  # seconds for a reply
RECONCILE = float(os.environ.get("SHOP_RECONCILE", "5"))  # seconds between own reads
ORDERS = {}  # by id


class Order:
    def __init__(self, id, amount, phone, name):
        self.id, self.amount, self.phone, self.name = id, amount, phone, name
        self.bill = "P" + uuid.uuid4().hex[:19]  # stored before the create, and used for every attempt
        self.state, self.fulfilled = "new", 0
        self.command, self.lock = threading.Lock(), threading.Lock()  # for one command at a time, and for one change

    def move(self, to):
        """The one place where the state changes, so that an order is fulfilled once."""
        with self.lock:
            if to == "waiting" and self.state not in ("new", "unknown") or self.state == "refunded":
                return
            if to == "paid" and self.state != "paid":
                self.fulfilled += 1
            self.state = to

    def call(self, path, **bill):
        """Returns the HTTP status, the code and the whole reply; 0 and "" if there is no usable reply."""
        body = {"apiKey": KEY, "member": "clinic", "merchant": "desk", "bill": {"billId": self.bill, **bill}}
        req = urllib.request.Request(BILLING + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            try:
                res = urllib.request.urlopen(req, timeout=TIMEOUT)
            except urllib.error.HTTPError as refused:
                res = refused
            with res:
                reply = json.loads(res.read()) | {"pause": int(res.headers.get("Retry-After") or 0)}
            return res.status, reply.get("code", ""), reply
        except Exception:
            return 0, "", {}

    def signed(self, phone=""):
        text = ",".join(filter(None, [self.bill, phone, self.amount]))
        return {"price": int(self.amount), "hash": hashlib.sha256(text.encode()).hexdigest()}

    def read(self):
        """Takes over what the service says, and reports whether it said anything about this bill."""
        status, code, reply = self.call("/bill/read")
        data = reply.get("data") or {}
        to = {"W": "waiting", "F": "paid", "C": "refunded", "D": "withdrawn"}.get(data.get("apprState"))
        if status != 200 or code != "0000" or data.get("billId") != self.bill or not to:
            return False
        if to == "paid" and str(data.get("apprPrice")) != self.amount:
            return False  # tell a person
        self.move(to)
        return True

    def order(self):
        pause = 1
        for _ in range(10):
            if self.state not in ("new", "unknown"):
                return
            _, code, reply = self.call("/bill", sendType="TALK", phone=self.phone, memberName=self.name,
                                       callbackUrl=f"http://127.0.0.1:{PORT}/callback", **self.signed(self.phone))
            if code == "0000":
                self.move("waiting")
            elif code in ("", "ERROR", "BILL_001"):  # unknown: the service may have the bill
                self.move("unknown")
                self.read()
            elif code != "MAINTAINED_METHOD":
                return  # refused: tell a person
            if self.state in ("new", "unknown"):
                time.sleep(max(pause, reply.get("pause", 0)))
                pause = min(2 * pause, 60)

    def write(self, path, before, after):
        """Cancels or destroys the bill, until the outcome is known."""
        for _ in range(3):
            if self.state != before:
                return
            _, code, _ = self.call(path, **self.signed())
            if code == "0000":
                self.move(after)
            elif self.read() and code != "":
                return  # refused, and read: tell a person
            time.sleep(1)

    def refund(self):
        self.write("/bill/cancel", "paid", "refunded")

    def withdraw(self):
        self.write("/bill/destroy", "waiting", "withdrawn")

    def resend(self):
        self.call("/bill/resend")  # once: the customer gets a message each time
        self.read()

    def run(self, command):
        with self.command:
            getattr(self, command)()


def callback(body):
    """A callback is a reason to read the bill, and no evidence."""
    if (body.get("apiKey") or body.get("apikey")) != KEY:
        return {"code": "PARTNER_002"}
    order = next((o for o in list(ORDERS.values()) if o.bill == (body.get("billId") or body.get("bill_id"))), None)
    if not order:
        return {"code": "BILL_005"}
    return {"code": "0000" if order.read() else "ERROR"}  # after ERROR it comes again


class Handler(BaseHTTPRequestHandler):
    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):  # the order hook: GET /desk/orders/ORDER
        o = ORDERS.get(self.path.split("/")[-1])
        self.reply({"state": o.state, "fulfilled": o.fulfilled, "bill_ids": [o.bill],
                    "amount": int(o.amount)} if o else {"state": "unknown", "fulfilled": 0})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path == "/callback":
            return self.reply(callback(body))
        o = ORDERS.setdefault(body["order"], Order(body["order"], str(body["amount"]), body["phone"], body["name"]))
        threading.Thread(target=o.run, args=[self.path.split("/")[-1]], daemon=True).start()
        self.reply({})


def reconcile():
    while True:
        time.sleep(RECONCILE)
        for o in list(ORDERS.values()):
            if o.state in ("waiting", "unknown", "paid"):
                o.read()


threading.Thread(target=reconcile, daemon=True).start()
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
