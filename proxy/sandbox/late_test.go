package sandbox_test

import (
	"path/filepath"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// An operation with Fault.Late is carried out when the clock passes its time, and not before. steps are the calls after
// the late one, with the codes that they get: + is the time that passes before the call.
func TestLateOperationIsCarriedOutWhenItIsDue(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, state, op, fault string
		steps                  [][2]string // "+TIME" and a code, or an operation and a code
		want                   string      // the bill's state at the end
		done                   string      // the code of the late exchange
	}{
		{"create", "", "create", `"drop":true,`, [][2]string{{"read", "BILL_003"}, {"+59s", ""}, {"read", "BILL_003"}, {"+1s", ""}, {"read", "0000"}}, "W", "0000"},
		{"create, made again meanwhile", "", "create", `"drop":true,`, [][2]string{{"create", "0000"}, {"+1m", ""}, {"read", "0000"}}, "W", "BILL_001"},
		{"create, with a reply", "", "create", "", [][2]string{{"read", "BILL_003"}, {"+1h", ""}, {"create", "BILL_001"}}, "W", "0000"},
		{"cancel", "F", "cancel", `"drop":true,`, [][2]string{{"read", "0000"}, {"+1m", ""}, {"cancel", "BILL_002"}}, "C", "0000"},
		{"destroy of a bill that is paid meanwhile", "W", "destroy", `"drop":true,`, [][2]string{{"pay", ""}, {"+1m", ""}}, "F", "BILL_002"},
	}
	for _, row := range rows {
		for _, form := range forms {
			t.Run(form+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				r := start(t)
				if row.state != "" {
					r.createInState(row.state)
				}
				r.runControl(`POST /faults {"operation":"bill.` + row.op + `",` + row.fault + `"late_ms":60000} > 200 "late_ms":60000`)
				status, body, err := r.try(t.Context(), newCall(form, row.op))
				if (row.fault == "") != (err == nil) || row.fault == "" && codeOf(t, form, body) != "ERROR" {
					t.Errorf("%d %q %v", status, body, err)
				}
				for i, step := range row.steps {
					switch {
					case step[0][0] == '+':
						r.runControl(`POST /clock {"advance":"` + step[0][1:] + `"} > 200`)
					case step[0] == "pay":
						must(t, r.Pay("", billID))
					default:
						gives(t, step[1], i)(r.do(newCall(form, step[0])))
					}
				}
				equal(t, r.state(), row.want, "state")
				var late []logged
				first := logged{}
				for _, x := range r.log("") {
					if x.Late {
						late = append(late, x)
					} else if first.Operation == "" && x.Fault.Operation != "" {
						first = x
					}
				}
				if len(late) != 1 || late[0].Code != row.done || late[0].Done != (row.done == "0000") || late[0].Status != 0 || late[0].After != row.want {
					t.Errorf("late: %+v", late)
				}
				if first.Done || first.Code != "ERROR" || first.Before != first.After {
					t.Errorf("the call itself: %+v", first)
				}
			})
		}
	}
}

// Without a change of the clock a late operation is carried out in real time.
func TestLateOperationFollowsTheRealClock(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{Clock: time.Now})
	r.Fault(sandbox.Fault{Operation: "bill.create", Late: time.Millisecond})
	r.do(newCall("v2", "create").with("expireDt", omitted{}))
	eventually(t, func() bool { return len(r.Bills()) == 1 })
}

// A late operation is not in the data file: it is lost at a stop.
func TestLateOperationIsLostAtAStop(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data")
	first := open(t, file, sandbox.Options{})
	first.Fault(sandbox.Fault{Operation: "bill.create", Late: time.Minute})
	first.do(newCall("v2", "create"))
	must(t, first.Close())
	next := open(t, file, sandbox.Options{})
	must(t, next.SetClock(noon.Add(time.Hour)))
	equal(t, len(next.Bills()), 0, "bills")
}
