package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
)

// hostile is a value of a caller that must not reach a terminal or a browser as it is: it would change colours and titles, overwrite
// and forge lines, reorder text, and run scripts.
const hostile = "<script>\"'&한글\x1b[31m\x1b]0;title\x07\r\nFORGED\v\f\b\x00\x7f\t\u0085\u009b31m\u202e\u2066\u2069\u200e\u200f\u061c\u2028\U000e0041\xff"

// fillHostile sets every text in v to the hostile value, and every other value to one that shows it.
func fillHostile(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillHostile(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillHostile(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillHostile(key)
		fillHostile(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_800_000_000, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillHostile(v.Field(i))
			}
		}
	}
}

// filled returns the JSON of a value of the type with hostile texts.
func filled[T any](t *testing.T) []byte {
	t.Helper()
	v := new(T)
	fillHostile(reflect.ValueOf(v).Elem())
	text, err := json.Marshal(v)
	must(t, err)
	return text
}

// showsRaw returns the first character of an output that a terminal could obey, or "".
func showsRaw(output string) string {
	for i, r := range output {
		_, size := utf8.DecodeRuneInString(output[i:])
		if r == utf8.RuneError && size == 1 || r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			return output[max(0, i-60):min(len(output), i+20)]
		}
	}
	return ""
}

// hostileAdmin is an admin listener whose replies have hostile texts in all fields. With status it fails with a hostile text.
func hostileAdmin(t *testing.T, status int) string {
	replies := map[string][]byte{
		"GET /callbacks": filled[operate.CallbackPage](t), "GET /callbacks/" + hostileID: filled[operate.Callback](t), "GET /callbacks/missing": filled[operate.MissingList](t),
		"POST /callbacks/replay": filled[operate.Progress](t), "POST /callbacks/" + hostileID + "/replay": nil,
		"GET /rollout": filled[operate.Status](t), "GET /rollout/report": filled[operate.Report](t), "GET /audit": filled[[]operate.Change](t),
		"GET /rollout/bills": filled[operate.BillList](t), "POST /rollout/read": filled[operate.Bill](t), "GET /store/clock": filled[operate.Clock](t), "POST /store/clock": filled[operate.Clock](t),
	}
	for _, action := range []string{"stage", "stop", "resume", "begin", "moved", "restored", "reset", "assign"} {
		replies["POST /rollout/"+action] = filled[operate.Change](t)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply, known := replies[r.Method+" "+r.URL.Path]
		switch {
		case status != 0:
			w.WriteHeader(status)
			_, _ = w.Write([]byte(hostile))
		case !known:
			t.Errorf("%s %s has no reply", r.Method, r.URL.Path)
		default:
			_, _ = w.Write(reply)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const hostileID = "cb_00112233445566778899aabbccddeeff"

func TestAdminOutputShowsNoControlCharacters(t *testing.T) {
	t.Parallel()
	const ref = "6e2b0f4cd1aa"
	replies := hostileAdmin(t, 0)
	refusals, failures := hostileAdmin(t, http.StatusConflict), hostileAdmin(t, http.StatusInternalServerError)
	for _, command := range []string{
		"callbacks list --limit 1", "callbacks list --limit 1 --json", "callbacks show " + hostileID, "callbacks show " + hostileID + " --json", "callbacks missing", "callbacks missing --json",
		"callbacks replay --all --by x", "bills list", "bills list --json", "bills list --outcome unknown",
		"bills read A --partner " + ref, "bills read A --json --partner " + ref, "rollout status --limit 1", "rollout status --limit 1 --json", "rollout report",
		"rollout report --format json", "audit", "audit --json", "rollout set --default --stage new --by x", "rollout set --default --stage default --by x",
		"rollout stop --by x", "rollout resume --by x", "rollout begin --by x", "rollout moved old --by x", "rollout restored --by x", "rollout reset --all --by x",
		"bills read A --assign old --by x --partner " + ref,
		"store clock", "store clock --confirm --by x",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(command)
			for _, admin := range []string{replies, refusals, failures} {
				_, out, stderr := runCommand(t, false, append(args, "--admin", admin)...)
				equal(t, showsRaw(out+stderr), "", "a terminal would obey")
				if out+stderr == "" {
					t.Error("no output")
				}
				masked := strings.HasPrefix(command, "rollout report") // the gateway masks the values in a report
				if admin == replies && !masked && strings.Contains("\n"+out, "\nFORGED") {
					t.Errorf("a value is a line of its own:\n%s", out)
				}
				if strings.Contains(command, "--json") && admin == replies {
					if !json.Valid([]byte(strings.SplitN(out, "\n", 2)[0])) {
						t.Errorf("not JSON: %s", out)
					}
				}
			}
		})
	}
}

func TestPrintableText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "A-1": "A-1", "김하늘 11월 수강료": "김하늘 11월 수강료", `a "b" \c`: `a "b" \c`, "한글\x1b[31m": `"한글\x1b[31m"`, "a\nb": `"a\nb"`, "a\tb": `"a\tb"`,
		"\u202eA": `"\u202eA"`, "\xff": `"\xff"`, "\u009b": `"\u009b"`,
	} {
		equal(t, printable(text), want, text)
	}
	var out bytes.Buffer
	w := terminalWriter{&out}
	text := "한글 \x1b[31m\t\n\u202e\U000e0041\xff\n"
	gives(t, len(text), "Write")(w.Write([]byte(text)))
	equal(t, out.String(), "한글 \\u001b[31m\t\n\\u202e\\udb40\\udc41\\xff\n")
}

// Output that does not go through printf could show a text of a caller as lines and columns.
func TestCommandsPrintWithPrintf(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	must(t, err)
	printing := regexp.MustCompile(`\bfmt\.F?[Pp]rint\w*\(`)
	allowed := map[string]int{"output.go": 2} // printfErr and progressf
	found := map[string]int{}
	for _, file := range files {
		if calls := printing.FindAll(proxytest.ReadFile(t, file), -1); calls != nil && !strings.HasSuffix(file, "_test.go") {
			found[file] = len(calls)
		}
	}
	equal(t, found, allowed, "calls of fmt.Print… and fmt.Fprint…")
}
