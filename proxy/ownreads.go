package proxy

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"billbridge/config"
	"billbridge/proxy/routing"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// An OwnRead is a read of a bill by the gateway itself: a probe, the read of the queue after a write, and the
// read for a missing callback. It is made from the examples of the table.
type OwnRead struct {
	Clients  []translate.Form // the forms of partners for which bills are read so
	Upstream string
	Request  string   // in the upstream's form
	Empty    []string // the fields that such a request can have and this one has not
	State    string   // what the state in the example of a reply means
	Problem  string   // why such a read says nothing; "" if it does

	// Without are the fields of a callback that one made from such a reply has not. It is nil without
	// callbacks.reconcile.
	Without []string
}

// OwnReads returns the reads that the gateway makes with a config, for each form of a partner and each upstream. It
// runs what the gateway itself runs.
func OwnReads(c *config.Config) (list []OwnRead) {
	read, err := billing.ReadOperation(c.Table)
	reconciles := c.Callbacks != nil && c.Callbacks.Reconcile != nil
	if err != nil || c.Rollout == nil && !reconciles {
		return nil
	}
	for _, u := range c.Upstreams {
		for _, client := range c.Table.Forms() {
			one := OwnRead{Clients: []translate.Form{client}, Upstream: u.Name}
			one.try(read, client, u.Form, reconciles)
			same := func(o OwnRead) bool {
				return o.Upstream == u.Name && o.Request == one.Request && o.Problem == one.Problem
			}
			if i := slices.IndexFunc(list, same); i >= 0 {
				list[i].Clients = append(list[i].Clients, client)
			} else {
				list = append(list, one)
			}
		}
	}
	return list
}

// try reads the example of a bill.
func (r *OwnRead) try(read *translate.Operation, client, upstream translate.Form, reconciles bool) {
	asked := read.Translation(client, upstream).Start()
	defer asked.Release()
	if err := asked.Read(read.Schema(translate.Request, client).Example); err != nil {
		r.Problem = err.Error()
		return
	}
	call, request, err := composeRead(read, read.Translation(client, upstream), client, billing.IdentityOf(asked))
	if err != nil {
		r.Problem = err.Error()
		return
	}
	defer call.Release()
	r.Request = string(request)
	r.Empty = missing(request, read.Fields(), translate.Request, upstream)
	reply := read.Schema(translate.Reply, upstream).Example
	if _, err = call.Reply(nil, 200, reply); err != nil {
		r.Problem = "the example of a reply: " + err.Error()
		return
	}
	r.State = call.ReplyMeaning(billing.State)
	if probeResults[billing.SaysOf(call, 200)] != routing.Present || r.State == "" {
		r.Problem = "the example of a reply does not show the bill"
		return
	}
	if reconciles {
		callback := read.Table().Callback
		r.Without = missing(callback.FromReply(nil, call), callback.Fields(), translate.Request, upstream)
	}
}

// missing returns the fields of a message in a form that a document does not have.
func missing(document []byte, fields []translate.Field, m translate.Message, form translate.Form) (paths []string) {
	for _, f := range fields {
		path := f.Source
		if f.Message == string(m) && f.From == form && path != "" && !strings.Contains(path, "[]") &&
			!gjson.GetBytes(document, path).Exists() {
			paths = append(paths, path)
		}
	}
	return paths
}
