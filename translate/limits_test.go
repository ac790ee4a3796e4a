package translate_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"billbridge/translate"
)

// nested returns a document with this many levels. The outermost is an object.
func nested(levels int, open, shut string) []byte {
	return []byte(`{"a":` + strings.Repeat(open, levels-1) + `1` + strings.Repeat(shut, levels-1) + `}`)
}

// The limit is exact, for requests and replies in every translation.
func TestR03_DepthIsLimited(t *testing.T) {
	t.Parallel()
	for c, forms := range translations(shipped()) {
		for levels, allowed := range map[int]bool{32: true, 33: false, 34: false, 10001: false} {
			for _, in := range [][]byte{nested(levels, "[", "]"), nested(levels, `{"b":`, "}"), nested(levels, ` [ `, "] ")} {
				_, refused := c.Start().Request(nil, in)
				_, unusable := c.Start().Reply(nil, 200, in)
				_, _, callback := translateCallback(string(in), forms[0], forms[1])
				for _, err := range []error{refused, unusable} {
					if tooDeep := err != nil && strings.Contains(err.Error(), "deeper than 32"); tooDeep == allowed {
						t.Errorf("%s %s, %d levels: %v", c.Operation().Name, forms, levels, err)
					}
				}
				if (callback == nil) != allowed {
					t.Errorf("callback %s, %d levels: %v", forms, levels, callback)
				}
			}
		}
	}
}

// A recursive parser would crash the process. Only the refusal is allocated.
func TestR03_SixteenMegabytesOfBrackets(t *testing.T) {
	// Not parallel: it reads the allocations of the whole process.
	const size = 16 << 20
	for name, doc := range map[string][]byte{
		"[":                    bytes.Repeat([]byte("["), size),
		"{":                    bytes.Repeat([]byte("{"), size),
		`{"a":`:                bytes.Repeat([]byte(`{"a":`), size/5),
		"[ in a field":         append([]byte(`{"apikey":`), bytes.Repeat([]byte("["), size)...),
		"] first, then [":      append(bytes.Repeat([]byte("]"), size/2), bytes.Repeat([]byte("["), size/2)...),
		"[] first, then [":     append(bytes.Repeat([]byte("[]"), size/4), bytes.Repeat([]byte("["), size/2)...),
		"an open text":         append([]byte(`{"a":"`), bytes.Repeat([]byte("["), size)...),
		"closed one too often": append([]byte(`{"a":1}}}}`), bytes.Repeat([]byte("["), size)...),
	} {
		for _, to := range forms {
			call, err := shipped().Operation("bill.create").Translation("legacy", to).Start(), error(nil)
			used := allocated(func() { _, err = call.Request(nil, doc) })
			if err == nil || used > 1<<20 && name != "an open text" {
				t.Errorf("%s to %s: %v, %d bytes allocated", name, to, err, used)
			}
		}
	}
}

// allocated returns the number of bytes that f allocates in all. The peak of f cannot be higher.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// peak returns the most that the heap grows while f runs. The garbage collector runs at 5 % growth, so garbage adds little. The heap
// is sampled every 20 microseconds, so a shorter peak can be missed.
func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	heap := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before, stop, most := heap(), make(chan bool), make(chan uint64)
	go func() {
		tick := time.NewTicker(20 * time.Microsecond)
		defer tick.Stop()
		highest := before
		for {
			highest = max(highest, heap())
			select {
			case <-stop:
				most <- highest
				return
			case <-tick.C:
			}
		}
	}()
	f()
	stop <- true
	return <-most - before
}

// Peak memory for a body, with the body itself, is under 20 times its size, whatever its content. If all allocations together are
// below that, the peak is too. Otherwise the peak is measured.
func TestR04_MemoryIsBounded(t *testing.T) {
	// Not parallel: it reads the memory of the whole process.
	const size = 1 << 18
	fill := func(item func(i int) string) []byte {
		var b bytes.Buffer
		b.WriteString(`{"bill":{"sendType":"TALK"}`)
		for i := 0; b.Len() < size; i++ {
			b.WriteString("," + item(i))
		}
		return append(b.Bytes(), '}')
	}
	passing := overlaid(t, "unknown: {request: pass, reply: pass}")
	bodies := map[string][]byte{
		"tiny names":         fill(func(i int) string { return fmt.Sprintf(`"%x":1`, i) }),
		"escaped names":      fill(func(i int) string { return fmt.Sprintf(`"\u0061%x":1`, i) }),
		"all escaped":        fill(func(i int) string { return fmt.Sprintf(`"\u00%02x\u%04x":""`, i>>8&0x3f+0x30, i%0xd000) }),
		"deep":               fill(func(i int) string { return fmt.Sprintf(`"%x":%s`, i, nested(31, "[", "]")) }),
		"long text":          []byte(`{"bill":{"sendType":"TALK","message":"` + strings.Repeat("가", size/3) + `"}}`),
		"long escaped":       []byte(`{"bill":{"sendType":"TALK","message":"` + strings.Repeat(`\uac00`, size/6) + `"}}`),
		"long price":         []byte(`{"bill":{"sendType":"TALK","price":` + strings.Repeat("9", size) + `}}`),
		"long bad price":     []byte(`{"bill":{"sendType":"TALK","price":"` + strings.Repeat("x", size) + `"}}`),
		"long name":          []byte(`{"bill":{"sendType":"TALK"},"` + strings.Repeat("x", size) + `":1}`),
		"long name, escaped": []byte(`{"bill":{"sendType":"TALK"},"` + strings.Repeat(`\u0078`, size/6) + `":1}`),
		"many in a list":     []byte(`{"bill":{"sendType":"TALK"},"x":[` + strings.Repeat("1,", size/2) + `1]}`),
		"invalid at its end": []byte(`{"bill":{"sendType":"TALK"},"x":[` + strings.Repeat("1,", size/2) + `1]`),
		"twice at its end":   append(bytes.TrimSuffix(fill(func(i int) string { return fmt.Sprintf(`"%x":1`, i) }), []byte("}")), `,"0":1}`...),
	}
	for name, doc := range bodies {
		for kind, table := range map[string]*translate.Table{"drop": shipped(), "pass": passing} {
			reply := append([]byte(`{"code":"0000",`), doc[1:]...)
			for message, run := range map[string]func(c *translate.Call){
				"request": func(c *translate.Call) { _, _ = c.Request(nil, doc) },
				"reply":   func(c *translate.Call) { _, _ = c.Reply(nil, 200, reply) },
			} {
				measure := func(how func(func()) uint64) float64 {
					call := table.Operation("bill.create").Translation("v2", "legacy").Start()
					return float64(how(func() { run(call) })+uint64(len(doc))) / float64(len(doc))
				}
				factor, method := measure(allocated), "allocated"
				// On a busy machine the collector is late and garbage counts, so one high peak is not a failure.
				for tries := 0; factor >= 20 && tries < 5; tries++ {
					factor, method = measure(peak), "at its peak, in several tries"
				}
				if factor >= 20 {
					t.Errorf("%s (%s, %s): %.1f times its size %s", name, kind, message, factor, method)
				}
			}
		}
	}
}
