package translate_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/tidwall/gjson"
)

const readReply = `{"code":"0000","message":"성공하였습니다.","data":{"apiKey":"demo-partner-key","billId":"12345678901234567890","catId":"1234567890","apprPayType":0,"apprCardType":"신용","apprDt":20261121093015,"apprOriginDt":20261121093015,"apprPrice":"50000","apprIssuer":"신한카드","apprIssuerCd":"06","apprIssuerNum":"123456******1234","apprAcquirerCd":"06","apprAcquirerNm":"신한카드사","apprNum":"30012345","apprOriginNum":"30012345","apprResCd":"0000","apprMonthly":"00","apprState":"F","apprCashNum":"","apprCashTrader":"","apprCashIssuanceNumber":"","apprCardMerchantNum":"00951234567","dscTxNum":"20261121000001","cardType":"01","apprSign":"","udItem":null}}`

const createRequest = `{"apikey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill":{"bill_id":"12345678901234567890","bill_issuer":"한빛수학학원","hash":"0f343b0931126a20f133d67c2b018a3b0f343b0931126a20f133d67c2b018a3b","product_nm":"11월 수강료","message":"11월 수강료 납부 안내드립니다.","member_nm":"김하늘","phone":"01000000000","price":"50000","expire_dt":"2026-11-30","callbackURL":"https://partner.example.com/callback"}}`

func translation(b *testing.B, operation string, client, upstream translate.Form) *translate.Translation {
	table, err := translate.Compile(32, billing.Table())
	must(b, err)
	return table.Operation(operation).Translation(client, upstream)
}

// BenchmarkValid only validates the same bytes, as a reference for the benchmarks below.
func BenchmarkValid(b *testing.B) {
	for name, doc := range map[string][]byte{"read reply": []byte(readReply), "create request": []byte(createRequest)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				gjson.ValidBytes(doc)
			}
		})
	}
}

// BenchmarkReply translates a read reply of 26 fields from v2 to legacy, with the check of the JSON.
func BenchmarkReply(b *testing.B) {
	for _, client := range []translate.Form{"legacy", "v2"} {
		name := map[translate.Form]string{"legacy": "conversion", "v2": "pass-through"}[client]
		b.Run(name, func(b *testing.B) {
			c := translation(b, "bill.read", client, "v2")
			doc, dst := []byte(readReply), make([]byte, 0, 4096)
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				call := c.Start()
				if _, err := call.Reply(dst, 200, doc); err != nil {
					b.Fatal(err)
				}
				call.Release()
			}
		})
	}
}

// BenchmarkReplyOtherOrder translates the same reply with its fields in another order, in lines and with three unknown fields.
func BenchmarkReplyOtherOrder(b *testing.B) {
	var lines bytes.Buffer
	must(b, json.Indent(&lines, shuffled([]byte(strings.Replace(readReply,
		`"apiKey"`, `"x":1,"y":"2","z":null,"apiKey"`, 1)), 1), "", " "))
	c := translation(b, "bill.read", "legacy", "v2")
	doc, dst := lines.Bytes(), make([]byte, 0, 4096)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		call := c.Start()
		if _, err := call.Reply(dst, 200, doc); err != nil {
			b.Fatal(err)
		}
		call.Release()
	}
}

// BenchmarkRequest translates a create request from legacy to v2, with the check of the JSON.
func BenchmarkRequest(b *testing.B) {
	for _, upstream := range []translate.Form{"v2", "legacy"} {
		name := map[translate.Form]string{"v2": "conversion", "legacy": "pass-through"}[upstream]
		b.Run(name, func(b *testing.B) {
			c := translation(b, "bill.create", "legacy", upstream)
			doc, dst := []byte(createRequest), make([]byte, 0, 4096)
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				call := c.Start()
				if _, err := call.Request(dst, doc); err != nil {
					b.Fatal(err)
				}
				call.Release()
			}
		})
	}
}

// BenchmarkCallback translates a callback from v2 to legacy, and makes the canonical form by which a repeated one is recognised.
func BenchmarkCallback(b *testing.B) {
	table, err := translate.Compile(32, billing.Table())
	must(b, err)
	doc, dst := []byte(gjson.Get(readReply, "data").Raw), make([]byte, 0, 4096)
	b.Run("translate", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := table.Callback.Translate(dst, doc, "v2", "legacy"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("canonical", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		b.ReportAllocs()
		for b.Loop() {
			translate.Canonical(dst, doc)
		}
	})
}

// BenchmarkReplace replaces the callback address of a translated create request.
func BenchmarkReplace(b *testing.B) {
	for _, upstream := range []translate.Form{"v2", "legacy"} {
		name := map[translate.Form]string{"v2": "conversion", "legacy": "pass-through"}[upstream]
		b.Run(name, func(b *testing.B) {
			call := translation(b, "bill.create", "legacy", upstream).Start()
			if _, err := call.Request(nil, []byte(createRequest)); err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				call.Replace(dst, "callback", "https://bridge.example.com/callbacks/7")
			}
		})
	}
}
