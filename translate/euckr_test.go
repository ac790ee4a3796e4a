package translate

import "testing"

// Old programs send Korean text in EUC-KR: a refusal says so. Other broken text is not taken for it.
func TestEUCKRIsNamed(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"{\"a\":\"x\xb1\xe8\xc7\xcf\xb4\xc3\"}": "EUC-KR, but must be UTF-8",
		"{\"a\":\"\x8cc\"}":                     "EUC-KR, but must be UTF-8", // CP949
		"{\"a\":\"x\xff\xc7 \xcf\"}":            "not JSON at byte 7",
		"{\"a\":\"\xb1\xe8\xc7\"":               "not JSON at byte 6",
		"{\"a\":\"\x80\"}":                      "not JSON at byte 6",
		"{\"a\":tru}":                           "not JSON at byte 8",
		"{\"a\":\"김\" x":                        "not JSON at byte 11",
	} {
		if got := checkJSON([]byte(doc), 32); got == nil || got.reason.String() != want {
			t.Errorf("%q: %+v, want %s", doc, got, want)
		}
	}
}
