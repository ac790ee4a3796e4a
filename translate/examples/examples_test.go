// Package examples has tables for other interfaces than billing, and the tests that run them.
package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

func table(t testing.TB, name string) *translate.Table {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := translate.Compile(32, translate.File{Name: name, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// A shown is one message in both forms. Those of the courier are the examples of its document.
type shown struct {
	about string // the operation and the message, or "callback"
	forms [2]string
}

var courierMessages = []shown{
	{"label.create request", [2]string{
		`{"cust_key":"K1","depot":"D1","ref_no":"R1","rcv_name":"김하늘","rcv_addr1":"Hauptstr. 1","rcv_addr2":"","rcv_zip":"10115","rcv_country":"DE","service":"2","cod_amt":"1250","ship_date":"20261224","notify_url":"https://shop.example.com/n","parcels":[{"seq":"1","weight_g":"2500","content":"books"},{"seq":"2","weight_g":"80","content":"card"}]}`,
		`{"apiKey":"K1","depotId":"D1","shipment":{"reference":"R1","recipient":{"name":"김하늘","address":{"line1":"Hauptstr. 1","line2":"","postalCode":"10115","countryCode":"DE"}},"service":"EXPRESS","cashOnDelivery":1250,"shipDate":"2026-12-24","webhookUrl":"https://shop.example.com/n","parcels":[{"sequence":1,"weightKg":2.5,"content":"books"},{"sequence":2,"weightKg":0.08,"content":"card"}]}}`,
	}},
	{"label.create request", [2]string{
		`{"cust_key":"K1","ref_no":"R1","cod_amt":"0","parcels":[]}`,
		`{"apiKey":"K1","shipment":{"reference":"R1","parcels":[]}}`,
	}},
	{"label.create reply", [2]string{
		`{"result_cd":"00","result_msg":"ok","ref_no":"R1","label_no":"L9","label_url":"https://labels.example.com/L9","price":"12.50","tracking":[{"seq":"1","track_no":"T1"},{"seq":"2","track_no":"T2"}]}`,
		`{"status":"SUCCESS","error":null,"result":{"reference":"R1","labelNumber":"L9","labelUrl":"https://labels.example.com/L9","price":12.50,"parcels":[{"sequence":1,"trackingNumber":"T1"},{"sequence":2,"trackingNumber":"T2"}]}}`,
	}},
	{"label.create reply", [2]string{
		`{"result_cd":"E12","result_msg":"used"}`,
		`{"status":"ERROR","error":{"code":"DUPLICATE_REFERENCE","message":"used"},"result":null}`,
	}},
	{"label.read request", [2]string{`{"cust_key":"K1","depot":"D1","ref_no":"R1"}`, `{"apiKey":"K1","depotId":"D1","reference":"R1"}`}},
	{"label.read reply", [2]string{
		`{"result_cd":"00","result_msg":"ok","ref_no":"R1","label_no":"L9","state":"20","state_time":"20261224153000","weight_g":"2580","insured":"Y","cod_amt":"0"}`,
		`{"status":"SUCCESS","error":null,"result":{"reference":"R1","labelNumber":"L9","state":"PICKED_UP","stateTime":"2026-12-24T15:30:00+09:00","weightKg":2.58,"insured":true}}`,
	}},
	{"label.read reply", [2]string{
		`{"result_cd":"00","result_msg":"ok","ref_no":"R1","label_no":"L9","state":"10","state_time":"","weight_g":"2000","insured":"N","cod_amt":"100"}`,
		`{"status":"SUCCESS","error":null,"result":{"reference":"R1","labelNumber":"L9","state":"CREATED","stateTime":null,"weightKg":2,"insured":false,"cashOnDelivery":100}}`,
	}},
	{"label.cancel request", [2]string{`{"cust_key":"K1","depot":"D1","ref_no":"R1","reason":"02"}`, `{"apiKey":"K1","depotId":"D1","reference":"R1","reasonCode":"ADDRESS"}`}},
	{"label.cancel reply", [2]string{`{"result_cd":"00","result_msg":"ok","ref_no":"R1"}`, `{"status":"SUCCESS","error":null,"result":{"reference":"R1"}}`}},
	{"label.list request", [2]string{`{"cust_key":"K1","depot":"D1","from_date":"20261201","to_date":"20261231"}`, `{"apiKey":"K1","depotId":"D1","from":"2026-12-01","to":"2026-12-31"}`}},
	{"label.list reply", [2]string{
		`{"result_cd":"00","result_msg":"ok","count":"2","labels":[{"ref_no":"R1","label_no":"L9","state":"10"},{"ref_no":"R2","label_no":"L8","state":"90"}]}`,
		`{"status":"SUCCESS","error":null,"result":{"count":2,"shipments":[{"reference":"R1","labelNumber":"L9","state":"CREATED"},{"reference":"R2","labelNumber":"L8","state":"CANCELLED"}]}}`,
	}},
	{"callback", [2]string{
		`{"cust_key":"K1","ref_no":"R1","label_no":"L9","state":"30","state_time":"20261224153000"}`,
		`{"event":"shipment.state","apiKey":"K1","data":{"reference":"R1","labelNumber":"L9","state":"DELIVERED","stateTime":"2026-12-24T15:30:00+09:00"}}`,
	}},
}

var sentMessages = []shown{
	{"message.send request", [2]string{
		`{"userKey":"U1","svcId":"S1","msgId":"M1","sender":"0200000","text":"안녕하세요","sendTime":"20261224153000","adFlag":"Y","type":"S","rcpts":["0100000","0100001"],"cbUrl":"https://shop.example.com/r"}`,
		`{"apiKey":"U1","serviceId":"S1","id":"M1","from":"0200000","body":"안녕하세요","scheduledAt":"2026-12-24T15:30:00+09:00","advertisement":true,"channel":"SMS","recipients":[{"phone":"0100000"},{"phone":"0100001"}],"reportUrl":"https://shop.example.com/r"}`,
	}},
	{"message.send request", [2]string{
		`{"userKey":"U1","svcId":"S1","msgId":"M1","sendTime":"","adFlag":"N","type":"L","rcpts":[]}`,
		`{"apiKey":"U1","serviceId":"S1","id":"M1","scheduledAt":null,"advertisement":false,"channel":"LMS","recipients":[]}`,
	}},
	{"message.send reply", [2]string{`{"rspCode":0,"rspMsg":"ok","msgId":"M1","acceptCnt":"2"}`, `{"ok":true,"result":{"id":"M1","accepted":2}}`}},
	{"message.send reply", [2]string{`{"rspCode":205,"rspMsg":"twice"}`, `{"ok":false,"error":{"code":"DUPLICATE","message":"twice"}}`}},
	{"message.result request", [2]string{`{"userKey":"U1","svcId":"S1","msgId":"M1"}`, `{"apiKey":"U1","serviceId":"S1","id":"M1"}`}},
	{"message.result reply", [2]string{
		`{"rspCode":0,"rspMsg":"ok","msgId":"M1","status":"1","doneTime":"20261224153000","okCnt":"1","failCnt":"0"}`,
		`{"ok":true,"result":{"id":"M1","status":"SENT","finishedAt":"2026-12-24T15:30:00+09:00","counts":{"ok":1,"failed":0}}}`,
	}},
	{"message.cancel request", [2]string{`{"userKey":"U1","svcId":"S1","msgId":"M1"}`, `{"apiKey":"U1","serviceId":"S1","id":"M1"}`}},
	{"message.cancel reply", [2]string{`{"rspCode":0,"rspMsg":"ok","msgId":"M1"}`, `{"ok":true,"result":{"id":"M1"}}`}},
	{"callback", [2]string{
		`{"userKey":"U1","msgId":"M1","status":"2","doneTime":""}`,
		`{"apiKey":"U1","message":{"id":"M1","status":"FAILED","finishedAt":null}}`,
	}},
}

// about has the request to which replies of an operation answer, in both forms.
func requestOf(messages []shown, operation string) [2]string {
	for _, m := range messages {
		if m.about == operation+" request" {
			return m.forms
		}
	}
	return [2]string{}
}

// send translates a message from one form to the other. It fails the test if anything but a declared constant is added, or anything
// is lost; a field that is missing in a reply is no loss.
func send(t rapid.TB, tab *translate.Table, messages []shown, about string, from int, in string) string {
	t.Helper()
	name, message, _ := strings.Cut(about, " ")
	forms := tab.Forms()
	var out []byte
	var err error
	var report translate.Report
	switch message {
	case "request":
		call := tab.Operation(name).Translation(forms[from], forms[1-from]).Start()
		out, err = call.Request(nil, []byte(in))
		report = call.Report
	case "reply":
		call := tab.Operation(name).Translation(forms[1-from], forms[from]).Start()
		if _, err := call.Request(nil, []byte(requestOf(messages, name)[1-from])); err != nil {
			t.Fatal(err)
		}
		out, err = call.Reply(nil, 200, []byte(in))
		report = call.Report
	default:
		var notice translate.Notice
		out, notice, err = tab.Callback().Translate(nil, []byte(in), forms[from], forms[1-from])
		if report = notice.Report; notice.Recognised != translate.Translated {
			t.Fatalf("%s is not translated: %s", in, notice.Recognised)
		}
	}
	missing := func(m translate.Mismatch) bool { return m.Got == "" }
	if err != nil || report.Unknown > 0 || len(report.Dropped) > 0 || slices.ContainsFunc(report.Mismatches, func(m translate.Mismatch) bool { return !missing(m) }) {
		t.Fatalf("%s from %s: %s\nbecame %s, %v, %+v", about, forms[from], in, out, err, report)
	}
	return string(out)
}

// Every message of the documents is the same in both forms, in both directions.
func TestMessagesOfTheDocuments(t *testing.T) {
	t.Parallel()
	for file, messages := range map[string][]shown{"courier.yaml": courierMessages, "messages.yaml": sentMessages} {
		tab := table(t, file)
		seen := map[string]bool{}
		for _, m := range messages {
			seen[m.about] = true
			for from := range 2 {
				if out := send(t, tab, messages, m.about, from, m.forms[from]); out != m.forms[1-from] {
					t.Errorf("%s: %s\nbecame %s\nwant   %s", m.about, m.forms[from], out, m.forms[1-from])
				}
			}
		}
		for _, o := range tab.Operations() {
			if !seen[o.Name+" request"] || !seen[o.Name+" reply"] {
				t.Errorf("no message of %s", o.Name)
			}
		}
	}
}

// What a form can say and the other can hold comes back unchanged: of every message, with random values. A value ends in ? if the
// field can be missing.
func TestRandomMessagesComeBack(t *testing.T) {
	t.Parallel()
	v1State, v2State := `"10"|"20"|"30"|"90"`, `"CREATED"|"PICKED_UP"|"DELIVERED"|"CANCELLED"`
	status, word := `"0"|"1"|"2"|"9"`, `"PENDING"|"SENT"|"FAILED"|"CANCELLED"`
	for file, templates := range map[string][]shown{
		"courier.yaml": {
			{"label.create request", [2]string{
				`{"cust_key":"text","depot":"text?","ref_no":"text?","rcv_name":"text?","rcv_addr1":"text?","rcv_addr2":"text?","rcv_zip":"text?","rcv_country":"text?","service":"\"1\"|\"2\"|\"3\"?","cod_amt":"digits","ship_date":"date8?","notify_url":"text?","parcels":[{"seq":"digits?","weight_g":"digits?","content":"text?"}]}`,
				`{"apiKey":"text","depotId":"text?","shipment":{"reference":"text?","recipient":{"name":"text?","address":{"line1":"text?","postalCode":"text?"}},"service":"\"STANDARD\"|\"EXPRESS\"|\"SAME_DAY\"?","cashOnDelivery":"positive?","shipDate":"date?","webhookUrl":"text?","parcels":[{"sequence":"number?","weightKg":"kilos?","content":"text?"}]}}`,
			}},
			{"label.create reply", [2]string{
				`{"result_cd":"\"00\"","result_msg":"\"ok\"","ref_no":"\"R1\"?","label_no":"text?","label_url":"text?","price":"decimal?","tracking":[{"seq":"digits?","track_no":"text?"}]}`,
				`{"status":"\"SUCCESS\"","error":"null","result":{"reference":"\"R1\"","labelNumber":"text?","labelUrl":"text?","price":"fraction?","parcels":[{"sequence":"number?","trackingNumber":"text?"}]}}`,
			}},
			{"label.create reply", [2]string{
				`{"result_cd":"\"E01\"|\"E12\"|\"E13\"|\"E20\"|\"E99\"","result_msg":"text"}`,
				`{"status":"\"ERROR\"","error":{"code":"\"INVALID_KEY\"|\"DUPLICATE_REFERENCE\"|\"NOT_FOUND\"|\"VALIDATION\"|\"INTERNAL\"","message":"text"},"result":"null"}`,
			}},
			{"label.read reply", [2]string{
				`{"result_cd":"\"00\"","result_msg":"\"ok\"","ref_no":"\"R1\"","label_no":"text?","state":"` + quoted(v1State) + `?","state_time":"time14?","weight_g":"digits?","insured":"\"Y\"|\"N\"?","cod_amt":"digits"}`,
				`{"status":"\"SUCCESS\"","error":"null","result":{"reference":"\"R1\"","labelNumber":"text?","state":"` + quoted(v2State) + `?","stateTime":"time?","weightKg":"kilos?","insured":"true|false?","cashOnDelivery":"positive?"}}`,
			}},
			{"label.cancel request", [2]string{
				`{"cust_key":"text","depot":"text?","ref_no":"text?","reason":"\"01\"|\"02\"|\"03\"?"}`,
				`{"apiKey":"text","depotId":"text?","reference":"text?","reasonCode":"\"CUSTOMER\"|\"ADDRESS\"|\"OTHER\"?"}`,
			}},
			{"label.list request", [2]string{`{"cust_key":"text","depot":"text?","from_date":"date8?","to_date":"date8?"}`, `{"apiKey":"text","depotId":"text?","from":"date?","to":"date?"}`}},
			{"label.list reply", [2]string{
				`{"result_cd":"\"00\"","result_msg":"\"ok\"","count":"digits?","labels":[{"ref_no":"text?","label_no":"text?","state":"` + quoted(v1State) + `?"}]}`,
				`{"status":"\"SUCCESS\"","error":"null","result":{"count":"number","shipments":[{"reference":"text?","labelNumber":"text?","state":"` + quoted(v2State) + `?"}]}}`,
			}},
			{"callback", [2]string{
				`{"cust_key":"name","ref_no":"text?","label_no":"text?","state":"` + quoted(v1State) + `?","state_time":"time14?"}`,
				`{"event":"\"shipment.state\"","apiKey":"name","data":{"reference":"text","labelNumber":"text?","state":"` + quoted(v2State) + `?","stateTime":"time?"}}`,
			}},
		},
		"messages.yaml": {
			{"message.send request", [2]string{
				`{"userKey":"text","svcId":"text?","msgId":"text?","sender":"text?","text":"text?","sendTime":"time14?","adFlag":"\"Y\"|\"N\"?","type":"\"S\"|\"L\"?","rcpts":["text"],"cbUrl":"text?"}`,
				`{"apiKey":"text","serviceId":"text?","id":"text?","from":"text?","body":"text?","scheduledAt":"time?","advertisement":"true|false?","channel":"\"SMS\"|\"LMS\"?","recipients":[{"phone":"text"}],"reportUrl":"text?"}`,
			}},
			{"message.send reply", [2]string{
				`{"rspCode":"0","rspMsg":"\"ok\"","msgId":"\"M1\"","acceptCnt":"digits?"}`,
				`{"ok":"true","result":{"id":"\"M1\"","accepted":"number?"}}`,
			}},
			{"message.send reply", [2]string{`{"rspCode":"205","rspMsg":"text"}`, `{"ok":"false","error":{"code":"\"DUPLICATE\"","message":"text"}}`}},
			{"message.result reply", [2]string{
				`{"rspCode":"0","rspMsg":"\"ok\"","msgId":"\"M1\"","status":"` + quoted(status) + `?","doneTime":"time14?","okCnt":"digits?","failCnt":"digits?"}`,
				`{"ok":"true","result":{"id":"\"M1\"","status":"` + quoted(word) + `?","finishedAt":"time?","counts":{"ok":"number?","failed":"number"}}}`,
			}},
			{"callback", [2]string{
				`{"userKey":"name","msgId":"text?","status":"` + quoted(status) + `?","doneTime":"time14?"}`,
				`{"apiKey":"name","message":{"id":"text","status":"` + quoted(word) + `?","finishedAt":"time?"}}`,
			}},
		},
	} {
		tab := table(t, file)
		messages := map[string][]shown{"courier.yaml": courierMessages, "messages.yaml": sentMessages}[file]
		for _, template := range templates {
			for from := range 2 {
				t.Run(fmt.Sprint(file, " ", template.about, " ", from), func(t *testing.T) {
					t.Parallel()
					rapid.Check(t, func(t *rapid.T) {
						in := generate(t, gjson.Parse(template.forms[from]))
						if strings.Contains(in, `{}`) { // an object without fields is no value
							t.Skip()
						}
						out := send(t, tab, messages, template.about, from, in)
						if back := send(t, tab, messages, template.about, 1-from, out); canonical(back) != canonical(in) {
							t.Fatalf("%s\nbecame %s\nand    %s", in, out, back)
						}
					})
				})
			}
		}
	}
}

func quoted(s string) string { return strings.ReplaceAll(s, `"`, `\"`) }

func canonical(doc string) string { return string(translate.Canonical(nil, []byte(doc))) }

// generate makes a message from a template.
func generate(t *rapid.T, template gjson.Result) string {
	switch {
	case template.IsObject():
		var members []string
		template.ForEach(func(key, v gjson.Result) bool {
			if v.Type == gjson.String && strings.HasSuffix(v.Str, "?") && rapid.IntRange(0, 4).Draw(t, key.Str+" is there") == 0 {
				return true
			}
			members = append(members, key.Raw+":"+generate(t, v))
			return true
		})
		return "{" + strings.Join(members, ",") + "}"
	case template.IsArray():
		var items []string
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			items = append(items, generate(t, template.Get("0")))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return value(t, strings.TrimSuffix(template.Str, "?"))
}

// value makes a value of a kind, or one of several.
func value(t *rapid.T, kind string) string {
	match := func(pattern string) string { return rapid.StringMatching(pattern).Draw(t, kind) }
	switch kind {
	case "text":
		encoded, err := json.Marshal(rapid.StringOfN(rapid.Rune(), 1, 20, -1).Draw(t, "text"))
		if err != nil {
			t.Fatal(err)
		}
		return string(encoded)
	case "name":
		return `"` + match(`[a-z]{1,9}`) + `"`
	case "digits":
		return `"` + match(`0|[1-9][0-9]{0,24}`) + `"`
	case "number":
		return match(`0|[1-9][0-9]{0,24}`)
	case "positive":
		return match(`[1-9][0-9]{0,24}`)
	case "decimal":
		return `"` + match(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?`) + `"`
	case "fraction":
		return match(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?`)
	case "kilos":
		return match(`(0|[1-9][0-9]{0,20})(\.[0-9]{0,2}[1-9])?`)
	case "date8":
		return `"` + match(`[0-9]{8}`) + `"`
	case "date":
		return `"` + match(`[0-9]{4}-[0-9]{2}-[0-9]{2}`) + `"`
	case "time14":
		return `"` + match(`([0-9]{14})?`) + `"`
	case "time":
		if rapid.Bool().Draw(t, "none") {
			return "null"
		}
		return `"` + match(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+09:00`) + `"`
	}
	return rapid.SampledFrom(strings.Split(kind, "|")).Draw(t, kind)
}

// What cannot come back is refused, and the message says where and why.
func TestWhatTheFormsCannotSay(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ file, operation, from, in, want string }{
		{"courier.yaml", "label.create", "v2", `{"shipment":{"parcels":[{"weightKg":2.5},{"weightKg":2.0005}]}}`, "E20 shipment.parcels[1].weightKg: has the wrong type: want a decimal number that the other form can hold, got a number with a fraction"},
		{"courier.yaml", "label.create", "v2", `{"shipment":{"cashOnDelivery":0}}`, "E20 shipment.cashOnDelivery: has a value without a counterpart in v1"},
		{"courier.yaml", "label.create", "v2", `{"shipment":{"service":"DRONE"}}`, "E20 shipment.service: has a value without a counterpart in v1"},
		{"courier.yaml", "label.create", "v2", `{"shipment":{"gift":true}}`, "E20 shipment.gift: is not a field of this operation"},
		{"courier.yaml", "label.create", "v1", `{"parcels":[{"weight_g":"2.5"}]}`, "E20 parcels[0].weight_g: has the wrong type: want a decimal number that the other form can hold, got text with other characters than digits"},
		{"courier.yaml", "label.list", "v2", `{"from":"24.12.2026"}`, "E20 from: has the wrong type: want text like YYYY-MM-DD, got other text"},
		{"messages.yaml", "message.send", "notify", `{"scheduledAt":"2026-12-24T15:30:00Z"}`, "400 scheduledAt: has the wrong type: want text like YYYY-MM-DDThh:mm:ss+09:00, got other text"},
		{"messages.yaml", "message.send", "notify", `{"recipients":[{"phone":"1"},{"phone":"2","name":"x"}]}`, "400 recipients[1].name: is not a field of this operation"},
	} {
		tab := table(t, row.file)
		forms := tab.Forms()
		from := slices.Index(forms[:], translate.Form(row.from))
		if _, err := tab.Operation(row.operation).Translation(forms[from], forms[1-from]).Start().Request(nil, []byte(row.in)); fmt.Sprint(err) != row.want {
			t.Errorf("%s: %v\nwant %s", row.in, err, row.want)
		}
	}
}

// Examples of each message are translated without a loss.
func TestExamplesOfTheTables(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"courier.yaml", "messages.yaml"} {
		tab := table(t, file)
		for _, o := range tab.Operations() {
			for from, client := range tab.Forms() {
				c := o.Translation(client, tab.Forms()[1-from])
				call := c.Start()
				if _, err := call.Request(nil, c.Example(translate.Request)); err != nil {
					t.Errorf("%s: %v", c.Example(translate.Request), err)
				}
				reply, err := call.Reply(nil, 200, c.Example(translate.Reply))
				if err != nil || len(call.Report.Mismatched) > 0 || len(call.Report.Dropped) > 0 {
					t.Errorf("%s became %s, %v %+v", c.Example(translate.Reply), reply, err, call.Report)
				}
			}
		}
	}
}

// A callback that is made from a read has what the read has shown, converted only for the partner.
func TestCallbackMadeFromARead(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("courier.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Reads and callbacks have the same fields if the callback has them under data, and an amount.
	operations, callback, _ := strings.Cut(string(data), "callbacks:")
	callback = strings.NewReplacer("data.", "", "method: POST", "method: POST\n    under: {v2: data}", "- {v2: event, default: shipment.state}",
		`- {v1: cod_amt, v2: cashOnDelivery, as: digits, absent: {v1: "0"}}`).Replace(callback)
	text := operations + "callbacks:" + callback
	courier, err := translate.Compile(32, translate.File{Name: "courier.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ form, reply, want, told string }{
		{
			"v2", `{"status":"SUCCESS","error":null,"result":{"reference":"R1","labelNumber":"L9","state":"PICKED_UP","stateTime":"2026-12-24T15:30:00+09:00"}}`,
			`{"data":{"reference":"R1","labelNumber":"L9","state":"PICKED_UP","stateTime":"2026-12-24T15:30:00+09:00"}}`,
			`{"cod_amt":"0","ref_no":"R1","label_no":"L9","state":"20","state_time":"20261224153000"}`,
		},
		{
			"v2", `{"status":"SUCCESS","error":null,"result":{"reference":"R1","state":"CREATED","stateTime":null,"cashOnDelivery":1250}}`,
			`{"data":{"cashOnDelivery":1250,"reference":"R1","state":"CREATED","stateTime":null}}`,
			`{"cod_amt":"1250","ref_no":"R1","state":"10","state_time":""}`,
		},
		{
			"v1", `{"result_cd":"00","result_msg":"ok","ref_no":"R1","state":"10","state_time":""}`,
			`{"ref_no":"R1","state":"10","state_time":""}`,
			`{"data":{"reference":"R1","state":"CREATED","stateTime":null}}`,
		},
	} {
		from := translate.Form(row.form)
		to := map[translate.Form]translate.Form{"v1": "v2", "v2": "v1"}[from]
		call := courier.Operation("label.read").Translation(to, from).Start()
		request := map[translate.Form]string{"v1": `{"cust_key":"K1","ref_no":"R1"}`, "v2": `{"apiKey":"K1","reference":"R1"}`}[to]
		if _, err := call.Request(nil, []byte(request)); err != nil {
			t.Fatal(err)
		}
		if _, err := call.Reply(nil, 200, []byte(row.reply)); err != nil {
			t.Fatal(err)
		}
		made := courier.Callback().FromReply(nil, call)
		if string(made) != row.want {
			t.Errorf("%s\nmade %s\nwant %s", row.reply, made, row.want)
		}
		told, _, err := courier.Callback().Translate(nil, made, from, to)
		if err != nil || string(told) != row.told {
			t.Errorf("%s became %s, %v\nwant %s", made, told, err, row.told)
		}
	}
}
