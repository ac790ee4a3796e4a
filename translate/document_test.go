package translate_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// document lists the fields of the interface document, copied by hand: by operation, message and form, the paths as the table
// writes them (a reply without its envelope, in v2 relative to data).
var document = map[string]string{
	"bill.create request v2":     "apiKey member merchant bill.billId bill.sendType bill.billIssuer bill.productName bill.price bill.supplyPrice bill.tax bill.memberName bill.phone bill.message bill.expireDt bill.hash bill.callbackUrl bill.pageRedirectUrl",
	"bill.create request legacy": "apikey merchant member bill.bill_id bill.bill_issuer bill.hash bill.product_nm bill.message bill.member_nm bill.phone bill.price bill.expire_dt bill.callbackURL",
	"bill.create reply v2":       "apiKey member merchant billId hash shortUrl",
	"bill.create reply legacy":   "apikey member merchant bill_id hash",

	"bill.resend request v2":     "apiKey member merchant bill.billId",
	"bill.resend request legacy": "apikey merchant member bill_id",
	"bill.resend reply v2":       "apiKey billId",
	"bill.resend reply legacy":   "",

	"bill.read request v2":     "apiKey member merchant bill.billId",
	"bill.read request legacy": "apikey merchant member bill_id",
	"bill.read reply v2":       "apiKey billId catId apprPayType apprCardType apprDt apprOriginDt apprPrice apprIssuer apprIssuerCd apprIssuerNum apprAcquirerCd apprAcquirerNm apprNum apprOriginNum apprResCd apprMonthly apprState apprCashNum apprCashTrader apprCashIssuanceNumber apprCardMerchantNum dscTxNum cardType apprSign udItem",
	"bill.read reply legacy":   "apikey bill_id appr_cat_id appr_pay_type appr_card_type appr_dt appr_origin_dt appr_price appr_issuer appr_issuer_cd appr_issuer_num appr_acquirer_cd appr_acquirer_nm appr_num appr_origin_num appr_res_cd appr_monthly appr_state appr_cash_num appr_cash_trader appr_cash_issuance_number",

	"bill.destroy request v2":     "apiKey member merchant bill.billId bill.price bill.hash",
	"bill.destroy request legacy": "apikey merchant member bill_id hash price",
	"bill.destroy reply v2":       "apiKey billId",
	"bill.destroy reply legacy":   "apikey member merchant bill_id hash",

	"bill.cancel request v2":     "apiKey member merchant bill.billId bill.price bill.cancelReason bill.hash",
	"bill.cancel request legacy": "apikey merchant member bill_id hash price",
	"bill.cancel reply v2":       "apiKey member merchant billId hash apprNum apprOriginNum apprCancelDt",
	"bill.cancel reply legacy":   "apikey member merchant bill_id hash appr_num appr_origin_num appr_cancel_dt",

	// The document shows no payload (Events). The field notes (Callbacks) say that it is the approval data of a read.
	"callback.payment request v2":     "apiKey billId catId apprPayType apprCardType apprDt apprOriginDt apprPrice apprIssuer apprIssuerCd apprIssuerNum apprAcquirerCd apprAcquirerNm apprNum apprOriginNum apprResCd apprMonthly apprState apprCashNum apprCashTrader apprCashIssuanceNumber apprCardMerchantNum dscTxNum cardType apprSign udItem",
	"callback.payment request legacy": "apikey bill_id appr_cat_id appr_pay_type appr_card_type appr_dt appr_origin_dt appr_price appr_issuer appr_issuer_cd appr_issuer_num appr_acquirer_cd appr_acquirer_nm appr_num appr_origin_num appr_res_cd appr_monthly appr_state appr_cash_num appr_cash_trader appr_cash_issuance_number",

	"mapping.register request v2": "apiKey memberId merchantId businessNumber callbackUrl redirectUrl",
	"mapping.register reply v2":   "url",
	"mapping.list request v2":     "apiKey",
	"mapping.list reply v2":       "partnerMember partnerMerchant companyNm branchNm businessNumber ceoName email mappingStatus regDt updDt",
	"mapping.status request v2":   "apiKey member merchant",
	"mapping.status reply v2":     "apiKey member merchant companyNm branchNm businessNumber reviewStatus",
	"merchant.map request v2":     "apiKey memberId merchantId memberIdx temporaryMerchantCd",
	"merchant.map reply v2":       "",
	"merchant.list request v2":    "apiKey",
	"merchant.list reply v2":      "memberId merchantId companyName branchName ceoName email businessNumber",
}

// The paths of the document, by operation: v2 and legacy.
var documentPaths = map[string][2]string{
	"bill.create":      {"/bill", "/if/bill/send"},
	"bill.resend":      {"/bill/resend", "/if/bill/resend"},
	"bill.read":        {"/bill/read", "/if/bill/read"},
	"bill.destroy":     {"/bill/destroy", "/if/bill/destroy"},
	"bill.cancel":      {"/bill/cancel", "/if/bill/cancel"},
	"mapping.register": {"/auth/mapping"},
	"mapping.list":     {"/read/mapping"},
	"mapping.status":   {"/auth/mapping/status"},
	"merchant.map":     {"/auth/merchant/mapping"},
	"merchant.list":    {"/read/merchant"},
}

// The table has exactly the fields of the document, and those whose about says "not in the document".
func TestTableHasTheFieldsOfTheDocument(t *testing.T) {
	t.Parallel()
	type row = map[string]any
	var table struct {
		Operations map[string]struct{ Request, Reply []row }
		Fields     map[string]struct{ About string }
	}
	written, err := shipped().YAML() // with the common rows expanded
	must(t, err)
	must(t, yaml.Load(written, &table))
	got, notInDocument := map[string][]string{}, []string{}
	for name, operation := range table.Operations {
		for message, rows := range map[string][]row{"request": operation.Request, "reply": operation.Reply} {
			for _, form := range []string{"v2", "legacy"} {
				if documentPaths[name][slices.Index([]string{"v2", "legacy"}, form)] == "" {
					continue
				}
				key := strings.Join([]string{name, message, form}, " ")
				got[key] = []string{}
				for _, r := range rows {
					path, _ := r[form].(string)
					named, _ := r["v2"].(string)
					about := table.Fields[named[strings.LastIndex(named, ".")+1:]].About
					switch {
					case path == "" || r["when"] != nil: // the option of the row is off
					case strings.HasSuffix(about, "not in the document)") && !slices.Contains(strings.Fields(document[key]), path):
						notInDocument = append(notInDocument, key+" "+path)
					default:
						got[key] = append(got[key], path)
					}
				}
				slices.Sort(got[key])
			}
		}
	}
	for _, f := range shipped().Callback().Fields() {
		key := "callback.payment " + f.Message + " " + string(f.From)
		got[key] = append(got[key], f.Source)
	}
	for key := range got {
		slices.Sort(got[key])
	}
	want := map[string][]string{}
	for key, fields := range document {
		want[key] = append([]string{}, strings.Fields(fields)...)
		slices.Sort(want[key])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-document +table\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bill.create reply legacy shortURL"}, notInDocument); diff != "" {
		t.Errorf("rows beyond the document: -field notes +table\n%s", diff)
	}
}

// The table has the operations of the document, with their paths and effects.
func TestTableHasTheOperationsOfTheDocument(t *testing.T) {
	t.Parallel()
	reads := []string{"bill.read", "mapping.list", "mapping.status", "merchant.list"}
	got := map[string][2]string{}
	for _, o := range shipped().Operations() {
		got[o.Name] = [2]string{o.Path("v2"), o.Path("legacy")}
		if isRead := o.Effect == translate.Read; isRead != slices.Contains(reads, o.Name) {
			t.Errorf("%s has the effect %s", o.Name, o.Effect)
		}
	}
	if diff := cmp.Diff(documentPaths, got); diff != "" {
		t.Errorf("-document +table\n%s", diff)
	}
}

// The table has the codes of the document.
func TestTableHasTheCodesOfTheDocument(t *testing.T) {
	t.Parallel()
	const codes = "0000 ERROR PARTNER_001 PARTNER_002 PARTNER_003 PARTNER_004 PARTNER_005 PARTNER_006 PARTNER_007 PARTNER_MAPPING_001 PARTNER_MAPPING_002 PARTNER_MAPPING_003 PARTNER_MAPPING_004 PARTNER_MAPPING_005 PARTNER_MAPPING_006 PARTNER_MAPPING_007 VALIDATION_001 VALIDATION_002 VALIDATION_004 PAYMENT_001 PAYMENT_002 PAYMENT_003 PAYMENT_004 PAYMENT_005 BILL_001 BILL_002 BILL_003 BILL_004 BILL_005 BILL_006 BILL_007 BILL_008 BILL_009 BILL_010 POINT_001 MAINTAINED_METHOD"
	if diff := cmp.Diff(strings.Fields(codes), shipped().Catalogue()); diff != "" {
		t.Errorf("-document +table\n%s", diff)
	}
}

// testdata/fields.txt shows what happens to every field in every direction. A reviewer sees in its diff what is lost.
func TestFields(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	write := func(name string, fields []translate.Field) {
		heading := ""
		for _, f := range fields {
			if h := fmt.Sprintf("%s %s, %s to %s", name, f.Message, f.From, f.To); h != heading {
				fmt.Fprintf(&b, "\n%s\n", h)
				heading = h
			}
			if f.About == "" {
				t.Errorf("%s %s: %s%s has no about", name, f.Message, f.Source, f.Target)
			}
			line := fmt.Sprintf("  %-9s %-27s %-27s %-55s %s", f.Class, f.Source, f.Target, f.About, f.Detail)
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	for _, o := range shipped().Operations() {
		write(o.Name, o.Fields())
	}
	write(shipped().Callback().Name(), shipped().Callback().Fields())
	const file = "testdata/fields.txt"
	if *update {
		must(t, os.WriteFile(file, []byte(b.String()), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
