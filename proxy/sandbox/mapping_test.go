package sandbox_test

import (
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

type mappingRow struct{ name, code, path, body string }

func mappingRows() []mappingRow {
	const register, place, status = "/auth/mapping", "/auth/merchant/mapping", "/auth/mapping/status"
	reg := func(edits ...string) string {
		m := map[string]any{"apiKey": demoKey, "memberId": "m1", "merchantId": "s1", "businessNumber": "1112233333", "callbackUrl": "https://p.example.com/cb"}
		for i := 0; i < len(edits); i += 2 {
			m[edits[i]] = edits[i+1]
		}
		return encode(m)
	}
	strict := func(merchant, temporary string) string {
		return encode(map[string]any{"apiKey": "demo-strict-key", "memberId": "demo-member", "merchantId": merchant, "temporaryMerchantCd": temporary})
	}
	stage := func(key, member, merchant string) string {
		return encode(map[string]any{"apiKey": key, "member": member, "merchant": merchant})
	}
	return []mappingRow{
		{"plain", "0000", register, reg()},
		{"no business number", "0000", register, reg("businessNumber", "")},
		{"no key", "PARTNER_MAPPING_001", register, reg("apiKey", "")},
		{"no member", "PARTNER_MAPPING_001", register, reg("memberId", "")},
		{"no merchant", "PARTNER_MAPPING_001", register, reg("merchantId", "")},
		{"nothing", "PARTNER_MAPPING_001", register, "{}"},
		{"unknown key", "PARTNER_003", register, reg("apiKey", "no-such-key")},
		{"not linked", "PARTNER_001", register, reg("apiKey", "demo-unlinked-key")},
		{"no contract", "PARTNER_006", register, reg("apiKey", "demo-expired-key")},
		{"no callback", "VALIDATION_001", register, reg("callbackUrl", "")},
		{"callback without a scheme", "VALIDATION_001", register, reg("callbackUrl", "undefined/api/webhook")},
		{"number as a number", "VALIDATION_001", register, `{"apiKey":"demo-partner-key","memberId":"m","merchantId":"s","businessNumber":1234567890,"callbackUrl":"https://p.example.com/cb"}`},

		{"plain", "0000", "/read/mapping", `{"apiKey":"demo-partner-key"}`},
		{"no key", "PARTNER_002", "/read/mapping", `{}`},
		{"not linked", "PARTNER_001", "/read/mapping", `{"apiKey":"demo-unlinked-key"}`},
		{"billing not granted", "0000", "/read/mapping", `{"apiKey":"demo-nobill-key"}`},

		{"plain", "0000", status, stage(demoKey, "demo-member", "demo-store")},
		{"unknown", "PARTNER_MAPPING_003", status, stage(demoKey, "demo-member", "elsewhere")},
		{"no key", "PARTNER_002", status, stage("", "demo-member", "demo-store")},

		{"plain", "0000", place, strict("demo-store", "")},
		{"temporary location", "0000", place, strict("demo-store", "TEMP0001")},
		{"no member", "PARTNER_MAPPING_001", place, `{"apiKey":"demo-strict-key","merchantId":"demo-store"}`},
		{"no such store", "PARTNER_004", place, strict("elsewhere", "")},
		{"no such location", "PARTNER_MAPPING_003", place, strict("demo-store", "TEMP0009")},
		{"deleted location", "PARTNER_MAPPING_004", place, strict("demo-store", "TEMP0002")},
		{"closed store", "PARTNER_MAPPING_006", place, strict("demo-closed", "")},
		{"suspended member", "PARTNER_MAPPING_007", place, strict("demo-suspended", "")},
		{"index of a number", "VALIDATION_001", place, `{"apiKey":"demo-strict-key","memberId":"demo-member","merchantId":"demo-store","memberIdx":1}`},

		{"removed partner", "PARTNER_005", status, stage("demo-removed-key", "demo-member", "demo-store")},

		{"plain", "0000", "/read/merchant", `{"apiKey":"demo-partner-key"}`},
		{"no key", "PARTNER_002", "/read/merchant", `{}`},
	}
}

func TestMappingCodes(t *testing.T) {
	t.Parallel()
	for _, row := range mappingRows() {
		t.Run(row.path[1:]+"/"+row.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, sandbox.Options{})
			status, body := r.post(row.path, row.body)
			if code := codeOf(t, "v2", body); status != http.StatusOK || code != row.code {
				t.Errorf("got %d %s, want %s: %s", status, code, row.code, body)
			}
		})
	}
}

// A merchant from its registration to its first bill.
func TestSignUp(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{BaseURL: "https://sandbox.example.com/"})
	const key, names = `{"apiKey":"demo-strict-key"}`, `"memberId":"m1","merchantId":"s1"`
	steps := []struct{ path, body, want string }{
		{
			"/auth/mapping", `{"apiKey":"demo-strict-key",` + names + `,"businessNumber":"1112233333","callbackUrl":"https://p.example.com/cb"}`,
			`{"code":"0000","message":"성공하였습니다.","data":{"url":"https://sandbox.example.com/signup/e1e65d00b564f74c"}}`,
		},
		{"/auth/merchant/mapping", `{"apiKey":"demo-strict-key",` + names + `}`, `{"code":"PARTNER_MAPPING_006","message":"연결할 매장 중 개통된 매장이 없습니다.","data":null}`},
		{
			"/auth/mapping/status", `{"apiKey":"demo-strict-key","member":"m1","merchant":"s1"}`,
			`{"code":"0000","message":"성공하였습니다.","data":{"apiKey":"demo-strict-key","member":"m1","merchant":"s1","companyNm":"","branchNm":"","businessNumber":"1112233333","reviewStatus":"P"}}`,
		},
		{"complete", "", ""},
		{"/auth/merchant/mapping", `{"apiKey":"demo-strict-key",` + names + `}`, `{"code":"0000","message":"성공하였습니다.","data":null}`},
	}
	bill := newCall("v2", "create").with("apiKey", "demo-strict-key").with("member", "m1").with("merchant", "s1")
	for _, step := range steps {
		if step.path == "complete" {
			if code, _ := r.do(bill); code != "PARTNER_003" {
				t.Errorf("a bill before the sign-up is complete: %s", code)
			}
			if _, list := r.post("/read/merchant", key); strings.Contains(list, `"m1"`) {
				t.Errorf("a store is looked up before its sign-up is complete: %s", list)
			}
			must(t, r.CompleteMapping("demo-strict-key", "m1", "s1"))
			continue
		}
		if _, got := r.post(step.path, step.body); got != step.want {
			t.Errorf("%s\ngot  %s\nwant %s", step.path, got, step.want)
		}
	}
	r.must(bill)
	_, list := r.post("/read/mapping", key)
	const last = `{"partnerMember":"m1","partnerMerchant":"s1","companyNm":"데모상사","branchNm":"신규점","businessNumber":"1112233333",` +
		`"ceoName":"김가입","email":"signup@example.com","mappingStatus":"COMPLETED","regDt":"2026-03-02T12:34:56","updDt":"2026-03-02T12:34:56"}]}`
	if !strings.HasSuffix(list, last) || strings.Count(list, "partnerMember") != 4 {
		t.Errorf("mappings: %s", list)
	}
	_, list = r.post("/read/merchant", key)
	const lastStore = `{"memberId":"m1","merchantId":"s1","companyName":"데모상사","branchName":"신규점","ceoName":"김가입","email":"signup@example.com","businessNumber":"1112233333"}]}`
	if !strings.HasSuffix(list, lastStore) || strings.Count(list, "memberId") != 4 {
		t.Errorf("stores: %s", list)
	}
}

// The lists of a partner without merchants are empty arrays, not null.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{Partners: []sandbox.Partner{{Key: "k"}}})
	for _, path := range []string{"/read/mapping", "/read/merchant"} {
		if _, got := r.post(path, `{"apiKey":"k"}`); got != `{"code":"0000","message":"성공하였습니다.","data":[]}` {
			t.Errorf("%s: %s", path, got)
		}
	}
}
