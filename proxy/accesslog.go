package proxy

import (
	"strings"

	"billbridge/proxy/accesslog"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// observe reports an exchange that has ended: to metrics and access log, and to Options.Finished.
func (x *exchange) observe() {
	g, k := x.gateway, keptPool.Get().(*kept)
	f := &k.Finished
	*f = x.describe()
	g.metrics.observe(f, x.to.target)
	if f.Logged {
		k.line = f.attrs(k.line[:0])
		accesslog.Write(g.log, f.At, f.Level, k.line)
		clear(k.line)
	}
	if g.finished != nil {
		g.finished(f)
	}
	*f = Finished{} // it refers to buffers
	keptPool.Put(k)
}

// maxBill is the most bytes of a bill id in the log: ids of any length can occur.
const maxBill = 100

// longPart is how much of a key must not be shown.
const longPart = 8

// loggedBill returns the bill id of a call, or "" if it has none. A caller can write its key there, or a part of it,
// which must not be shown. A short id can be a part of a key by chance.
func loggedBill(call *translate.Call) string {
	if call == nil {
		return ""
	}
	bill, key := call.Value(billing.Bill), call.Value(billing.Partner)
	if key != "" && (strings.Contains(bill, key) || len(bill) >= longPart && strings.Contains(key, bill)) {
		return ""
	}
	return strings.ToValidUTF8(bill[:min(len(bill), maxBill)], "")
}
