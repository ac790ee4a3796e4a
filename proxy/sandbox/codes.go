package sandbox

import (
	_ "embed"
	"strings"
)

// A code is a refusal of a call, by its code in the catalogue.
type code string

func (c code) Error() string { return string(c) }

// The error catalogue ("Errors").
const (
	codeSuccess                = "0000"
	codeError                  = "ERROR"
	codeNotLinked         code = "PARTNER_001"
	codeBadKey            code = "PARTNER_002"
	codeUnknownKey        code = "PARTNER_003"
	codeNoMerchant        code = "PARTNER_004"
	codeNoPartner         code = "PARTNER_005"
	codeNoContract        code = "PARTNER_006"
	codeNotGranted        code = "PARTNER_007"
	codeMappingMissing    code = "PARTNER_MAPPING_001"
	codeBadBusinessNumber code = "PARTNER_MAPPING_002"
	codeNoReview          code = "PARTNER_MAPPING_003"
	codeTemporaryDeleted  code = "PARTNER_MAPPING_004"
	codeTemporaryMapped   code = "PARTNER_MAPPING_005"
	codeNotOpened         code = "PARTNER_MAPPING_006"
	codeMemberState       code = "PARTNER_MAPPING_007"
	codeInvalid                = "VALIDATION_001"
	codeBadHash           code = "VALIDATION_002"
	codeBadPhone          code = "VALIDATION_004"
	codeBelowMinimum      code = "PAYMENT_003"
	codeBelowDevelopment  code = "PAYMENT_005"
	codeDuplicate         code = "BILL_001"
	codeNotCancellable    code = "BILL_002"
	codeNotFound               = "BILL_003"
	codeNoTransaction          = "BILL_005"
	codeNotSendable       code = "BILL_006"
	codeLongID            code = "BILL_007"
	codeBadSendType       code = "BILL_008"
	codeNoTalk            code = "BILL_009"
	codeNoURL             code = "BILL_010"
	codeNoPoints          code = "POINT_001"
)

// catalogueText has the codes of the document in their order, with their texts.
//
//go:embed codes.txt
var catalogueText string

// Catalogue returns every code of the document, in its order.
func Catalogue() (codes []string) {
	for line := range strings.Lines(catalogueText) {
		code, _, _ := strings.Cut(line, " ")
		codes = append(codes, code)
	}
	return codes
}

// messageOf returns the text of a code. A code that is not in the catalogue, such as 9999, has the text of ERROR.
func messageOf(code string) string {
	for line := range strings.Lines(catalogueText) {
		if text, found := strings.CutPrefix(line, code+" "); found {
			return strings.TrimSpace(text)
		}
	}
	return messageOf(codeError)
}
