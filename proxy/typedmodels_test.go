package proxy_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/tidwall/gjson"
)

// A typedModel is what the classes of a typed program have: the JSON type of each field, by operation and path.
type typedModel map[string]gjson.Type

// eachField calls f with the path of each field, also of objects.
func eachField(at string, v gjson.Result, f func(path string, v gjson.Result)) {
	v.ForEach(func(name, field gjson.Result) bool {
		path := at + "." + name.String()
		if f(path, field); field.IsObject() {
			eachField(path, field, f)
		}
		return true
	})
}

// learn adds the fields of a reply of a backend of the program's own form.
func (m typedModel) learn(op, body string) {
	eachField(op, gjson.Parse(body), func(path string, v gjson.Result) {
		if v.Type != gjson.Null {
			m[path] = v.Type
		} else if _, known := m[path]; !known {
			m[path] = gjson.Null
		}
	})
}

// read returns the fields of a reply at which Jackson or Gson fails, each with its value and the name of the library. A class
// for text takes any single value. Jackson takes no unknown field; Gson takes no "" for a number.
func (m typedModel) read(op, body string) (failures []string) {
	eachField(op, gjson.Parse(body), func(path string, v gjson.Result) {
		fails := func(who string) { failures = append(failures, fmt.Sprintf("%s: %s=%s", who, path, v.Raw)) }
		want, known := m[path]
		text := v.Type == gjson.String
		isDigits := text && v.Str != "" && strings.Trim(v.Str, "0123456789") == ""
		switch {
		case !known:
			fails("Jackson")
		case v.Type == gjson.Null:
		case want == gjson.Number && text && v.Str == "":
			fails("Gson")
		case want == gjson.Number && !isDigits && (v.Type != gjson.Number || strings.ContainsAny(v.Raw, ".eE-")),
			want == gjson.String && v.IsObject(), want == gjson.String && v.IsArray(), want == gjson.JSON && v.Type != gjson.JSON:
			fails("Jackson")
			fails("Gson")
		}
	})
	return failures
}

// typedReplies returns the replies to the calls of a program, by operation and what was staged: successes of each operation and
// state, and refusals.
func typedReplies(t *testing.T, client, upstream, more string) map[string]string {
	t.Helper()
	service := newService()
	b := newGateway(t, oneUpstream(upstream, newBackend(t, service).url, more))
	replies, n := map[string]string{}, 0
	send := func(op, state, code string) {
		n++
		id := fmt.Sprintf("1234567890ABCDEFG%03d", n)
		prepareBill(t, service, state, id)
		if code != "" {
			service.Fault(sandbox.Fault{Code: code})
		}
		replies[strings.TrimRight(op+" "+state+code, " ")] = b.send(newCall(client, op).with("billId", id)).body
	}
	for _, state := range []string{"W", "F", "C", "D"} {
		send("read", state, "")
	}
	for _, op := range operations {
		send(op, stateBefore[op], "")
		for _, code := range []string{"BILL_003", "ERROR", "MAINTAINED_METHOD", "PAYMENT_003"} {
			send(op, stateBefore[op], code)
		}
	}
	service.Fault(sandbox.Fault{Drop: true})
	send("create", "", "")
	return replies
}

// A word for which null was written is counted, and stays in the log.
func TestWordsOfRepliesAreLogged(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, "F", demoBill)
	logs, registry := &proxytest.Log{}, prometheus.NewRegistry()
	g, err := proxy.New(parse(t, oneUpstream("legacy", newBackend(t, service).url, payTypes(t, ", otherwise: null"))), proxy.Options{
		Registerer: registry, Logger: slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	w, q := httptest.NewRecorder(), newCall("v2", "read")
	g.ServeHTTP(w, httptest.NewRequest("POST", q.path(), strings.NewReader(q.body())))
	if !strings.Contains(w.Body.String(), `"apprPayType":null`) {
		t.Error(w.Body)
	}
	if log := logs.String(); !strings.Contains(log, `"level":"DEBUG","msg":"words without a number became null"`) || !strings.Contains(log, `"words":["appr_pay_type: CARD_VAN"]`) {
		t.Error(log)
	}
	const dropped = `{client="v2",field="appr_pay_type",message="reply",operation="bill.read"} 1`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(""), "billbridge_fields_dropped_total"); !strings.Contains(fmt.Sprint(err), dropped) {
		t.Error(err)
	}
}

// payTypes returns a config with more keys of the row apprPayType.
func payTypes(t *testing.T, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "o.yaml")
	if err := os.WriteFile(file, []byte("operations: {bill.read: {reply: [{v2: apprPayType, legacy: appr_pay_type"+more+"}]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "table: {overlay: " + file + "}"
}

// Typed programs (Jackson, Gson) read each reply and each refusal of a backend of the other form, and find each field that their
// own form has there. Only a word in place of a number is more than they can read: otherwise: null helps.
func TestTypedProgramsReadEveryReply(t *testing.T) {
	t.Parallel()
	only := []string{"apprCardMerchantNum", "apprSign", "cardType", "dscTxNum", "udItem"} // of v2: legacy has none of them
	words := []string{
		`read C: Gson: read.data.apprPayType="CARD_VAN"`, `read C: Jackson: read.data.apprPayType="CARD_VAN"`,
		`read F: Gson: read.data.apprPayType="CARD_VAN"`, `read F: Jackson: read.data.apprPayType="CARD_VAN"`,
	}
	for _, client := range forms {
		own, m := typedReplies(t, client, client, ""), typedModel{}
		for what, body := range own {
			op, _, _ := strings.Cut(what, " ")
			m.learn(op, body)
		}
		for _, more := range []string{"", ", otherwise: pass", ", otherwise: null"} {
			upstream := map[string]string{"v2": "legacy", "legacy": "v2"}[client]
			var want, got []string
			if client == "v2" && more != ", otherwise: null" {
				want = words
			}
			through := typedReplies(t, client, upstream, payTypes(t, more))
			for _, what := range slices.Sorted(maps.Keys(own)) {
				op, _, _ := strings.Cut(what, " ")
				failures := m.read(op, through[what])
				eachField(op, gjson.Parse(own[what]), func(path string, _ gjson.Result) {
					absent := slices.Contains(only, path[strings.LastIndex(path, ".")+1:])
					if gjson.Get(through[what], strings.TrimPrefix(path, op+".")).Exists() == absent {
						failures = append(failures, fmt.Sprintf("%s is there: %v", path, absent))
					}
				})
				for _, failure := range failures {
					got = append(got, what+": "+failure)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s at a backend in %s, %q: -want +got\n%s", client, upstream, more, diff)
			}
		}
	}
}
