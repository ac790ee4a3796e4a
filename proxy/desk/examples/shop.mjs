// The test system of a partner that speaks legacy, with the order hook of the practice desk. It needs Node 20 only.
//
//     BILLING_KEY=the-key-of-the-test-system node shop.mjs
import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const { BILLING_KEY, BILLING_URL = "http://127.0.0.1:8081", SHOP_PORT = "3000" } = process.env;
const TIMEOUT = 1000 * (process.env.SHOP_TIMEOUT ?? 5); // for a reply
const RECONCILE = 1000 * (process.env.SHOP_RECONCILE ?? 5); // between own reads
const STATES = { W: "waiting", F: "paid", C: "refunded", D: "withdrawn" };
const orders = new Map();

class Order {
  constructor({ order, amount, phone, name }) {
    Object.assign(this, { id: order, amount: String(amount), phone, name });
    this.bill = "N" + randomBytes(9).toString("hex"); // stored before the create, and used for every attempt
    this.state = "new";
    this.fulfilled = 0;
    this.last = Promise.resolve(); // one command at a time
  }

  get open() {
    return this.state === "new" || this.state === "unknown";
  }

  // The one place where the state changes, so that an order is fulfilled once.
  move(to) {
    if ((to === "waiting" && !this.open) || this.state === "refunded") return;
    if (to === "paid" && this.state !== "paid") this.fulfilled++;
    this.state = to;
  }

  // Returns the HTTP status and the reply; 0 and {} if there is no usable reply.
  async call(operation, fields) {
    const body = { apikey: BILLING_KEY, member: "clinic", merchant: "desk", ...fields };
    try {
      const res = await fetch(`${BILLING_URL}/if/bill/${operation}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT),
      });
      return { status: res.status, reply: await res.json(), after: 1000 * res.headers.get("Retry-After") };
    } catch {
      return { status: 0, reply: {}, after: 0 };
    }
  }

  signed(phone) {
    const text = [this.bill, phone, this.amount].filter(Boolean).join(",");
    return { bill_id: this.bill, price: this.amount, hash: createHash("sha256").update(text).digest("hex") };
  }

  // Takes over what the service says, and reports whether it said anything about this bill. A success has no code.
  async read() {
    const { status, reply } = await this.call("read", { bill_id: this.bill });
    const to = STATES[reply.appr_state];
    if (status !== 200 || (reply.code ?? "0000") !== "0000" || reply.bill_id !== this.bill || !to) return false;
    if (to === "paid" && String(reply.appr_price) !== this.amount) return false; // tell a person
    this.move(to);
    return true;
  }

  async order() {
    for (let n = 0, pause = 1000; n < 10 && this.open; n++, pause = Math.min(2 * pause, 60000)) {
      const bill = {
        ...this.signed(this.phone),
        phone: this.phone,
        member_nm: this.name,
        callbackURL: `http://127.0.0.1:${SHOP_PORT}/callback`,
      };
      const { reply, after } = await this.call("send", { bill });
      const { code = "" } = reply;
      if (code === "0000") {
        this.move("waiting");
      } else if (["", "ERROR", "BILL_001"].includes(code)) {
        this.move("unknown"); // the service may have the bill
        await this.read();
      } else if (code !== "MAINTAINED_METHOD") {
        return; // refused: tell a person
      }
      if (this.open) await sleep(Math.max(pause, after));
    }
  }

  // Cancels or destroys the bill, until the outcome is known.
  async write(operation, before, after) {
    for (let n = 0; n < 3 && this.state === before; n++) {
      const { code = "" } = (await this.call(operation, this.signed())).reply;
      if (code === "0000") this.move(after);
      else if ((await this.read()) && code !== "") return; // refused, and read: tell a person
      await sleep(1000);
    }
  }

  refund() {
    return this.write("cancel", "paid", "refunded");
  }

  withdraw() {
    return this.write("destroy", "waiting", "withdrawn");
  }

  async resend() {
    await this.call("resend", { bill_id: this.bill }); // once: the customer gets a message each time
    await this.read();
  }
}

// A callback is a reason to read the bill, and no evidence.
async function callback(body) {
  if (body.apikey !== BILLING_KEY) return { code: "PARTNER_002" };
  const order = [...orders.values()].find((o) => o.bill === body.bill_id);
  if (!order) return { code: "BILL_005" };
  return { code: (await order.read()) ? "0000" : "ERROR" }; // after ERROR it comes again
}

async function answer(req) {
  const last = req.url.split("/").at(-1);
  if (req.method === "GET") {
    const o = orders.get(last); // the order hook: GET /desk/orders/ORDER
    return o ? { state: o.state, fulfilled: o.fulfilled, bill_ids: [o.bill], amount: +o.amount } : { state: "unknown" };
  }
  let text = "";
  for await (const part of req.setEncoding("utf8")) text += part;
  const body = JSON.parse(text);
  if (last === "callback") return callback(body);
  if (!orders.has(body.order)) orders.set(body.order, new Order(body));
  const order = orders.get(body.order);
  order.last = order.last.then(() => order[last]());
  return {};
}

createServer(async (req, res) => {
  const body = JSON.stringify(await answer(req).catch(() => ({ code: "ERROR" })));
  res.writeHead(200, { "Content-Type": "application/json" }).end(body);
}).listen(+SHOP_PORT, "127.0.0.1");

setInterval(() => {
  for (const o of orders.values()) if (["waiting", "unknown", "paid"].includes(o.state)) o.read();
}, RECONCILE);
