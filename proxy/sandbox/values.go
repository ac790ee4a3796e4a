package sandbox

import (
	_ "embed"
	"strings"
)

// The operations that test values decide.
const (
	onPayment = "payment"
	onCancel  = "cancel"
	onSend    = "send" // of a message: a create of a TALK or legacy bill, and a resend
)

// A TestValue is a value of a bill that decides how an operation on it ends, as the numbers of test cards do.
type TestValue struct {
	Field string `json:"field"` // price, phone or memberName
	Value string `json:"value"`
	On    string `json:"on"` // payment, cancel or send
	Code  string `json:"code"`
}

// valuesText has the test values.
//
//go:embed values.txt
var valuesText string

// TestValues returns all test values.
func TestValues() (list []TestValue) {
	for line := range strings.Lines(valuesText) {
		words := strings.Fields(line)
		list = append(list, TestValue{words[0], words[1], words[2], words[3]})
	}
	return list
}

// decides returns the code that a test value of the bill decides for an operation, or "".
func (b *Bill) decides(on string) string {
	has := map[string]string{"price": trimZeros(b.Price), "phone": bareDigits(b.Phone), "memberName": b.MemberName}
	for _, v := range TestValues() {
		if v.On == on && v.Value == has[v.Field] {
			return v.Code
		}
	}
	return ""
}
