package sandbox_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// mappingRows are calls of the sub-business operations: a name, the path and the code, and what is not as in subBusiness.
const mappingRows = `
plain                   | /auth/mapping          | 0000                 | memberId="m1"; merchantId="s1"; businessNumber="1112233333"
no business number      | /auth/mapping          | 0000                 | memberId="m1"; merchantId="s1"; businessNumber=""
no key                  | /auth/mapping          | PARTNER_MAPPING_001  | apiKey=""
no member               | /auth/mapping          | PARTNER_MAPPING_001  | memberId=""
no merchant             | /auth/mapping          | PARTNER_MAPPING_001  | merchantId=""
nothing                 | /auth/mapping          | PARTNER_MAPPING_001  | no apiKey; no memberId; no merchantId; no callbackUrl
unknown key             | /auth/mapping          | PARTNER_003          | apiKey="no-such-key"
not linked              | /auth/mapping          | PARTNER_001          | apiKey="demo-unlinked-key"
no contract             | /auth/mapping          | PARTNER_006          | apiKey="demo-expired-key"
no callback             | /auth/mapping          | VALIDATION_001       | callbackUrl=""
number as a number      | /auth/mapping          | VALIDATION_001       | businessNumber=1234567890
plain                   | /read/mapping          | 0000                 |
no key                  | /read/mapping          | PARTNER_002          | no apiKey
not linked              | /read/mapping          | PARTNER_001          | apiKey="demo-unlinked-key"
billing not granted     | /read/mapping          | 0000                 | apiKey="demo-nobill-key"
plain                   | /auth/mapping/status   | 0000                 |
unknown                 | /auth/mapping/status   | PARTNER_MAPPING_003  | merchant="elsewhere"
no key                  | /auth/mapping/status   | PARTNER_002          | apiKey=""
removed partner         | /auth/mapping/status   | PARTNER_005          | apiKey="demo-removed-key"
plain                   | /auth/merchant/mapping | 0000                 | apiKey="demo-strict-key"
temporary location      | /auth/merchant/mapping | 0000                 | apiKey="demo-strict-key"; temporaryMerchantCd="TEMP0001"
no member               | /auth/merchant/mapping | PARTNER_MAPPING_001  | apiKey="demo-strict-key"; no memberId
no such store           | /auth/merchant/mapping | PARTNER_004          | apiKey="demo-strict-key"; merchantId="elsewhere"
no such location        | /auth/merchant/mapping | PARTNER_MAPPING_003  | apiKey="demo-strict-key"; temporaryMerchantCd="TEMP0009"
deleted location        | /auth/merchant/mapping | PARTNER_MAPPING_004  | apiKey="demo-strict-key"; temporaryMerchantCd="TEMP0002"
closed store            | /auth/merchant/mapping | PARTNER_MAPPING_006  | apiKey="demo-strict-key"; merchantId="demo-closed"
suspended member        | /auth/merchant/mapping | PARTNER_MAPPING_007  | apiKey="demo-strict-key"; merchantId="demo-suspended"
index of a number       | /auth/merchant/mapping | VALIDATION_001       | apiKey="demo-strict-key"; memberIdx=1
plain                   | /read/merchant         | 0000                 |
no key                  | /read/merchant         | PARTNER_002          | no apiKey
`

func TestMappingCodes(t *testing.T) {
	t.Parallel()
	for _, row := range rowsOf(mappingRows) {
		t.Run(row[1]+"/"+row[0], func(t *testing.T) {
			t.Parallel()
			r := start(t)
			call := maps.Clone(subBusiness[row[1]])
			for change := range strings.SplitSeq(row[3], "; ") {
				if name, without := strings.CutPrefix(change, "no "); without {
					delete(call, name)
				} else if name, value, ok := strings.Cut(change, "="); ok {
					call[name] = json.RawMessage(value)
				}
			}
			status, body := r.post(row[1], encode(call))
			if code := codeOf(t, "v2", body); status != http.StatusOK || code != row[2] {
				t.Errorf("got %d %s, want %s: %s", status, code, row[2], body)
			}
		})
	}
}
