package sandbox

import (
	_ "embed"
	"strings"
)

// The error catalogue ("Errors").
const (
	codeSuccess           = "0000"
	codeError             = "ERROR"
	codeNotLinked         = "PARTNER_001"
	codeBadKey            = "PARTNER_002"
	codeUnknownKey        = "PARTNER_003"
	codeNoMerchant        = "PARTNER_004"
	codeNoPartner         = "PARTNER_005"
	codeNoContract        = "PARTNER_006"
	codeNotGranted        = "PARTNER_007"
	codeMappingMissing    = "PARTNER_MAPPING_001"
	codeBadBusinessNumber = "PARTNER_MAPPING_002"
	codeNoReview          = "PARTNER_MAPPING_003"
	codeTemporaryDeleted  = "PARTNER_MAPPING_004"
	codeTemporaryMapped   = "PARTNER_MAPPING_005"
	codeNotOpened         = "PARTNER_MAPPING_006"
	codeMemberState       = "PARTNER_MAPPING_007"
	codeInvalid           = "VALIDATION_001"
	codeBadHash           = "VALIDATION_002"
	codeBadPhone          = "VALIDATION_004"
	codeBelowMinimum      = "PAYMENT_003"
	codeBelowDevelopment  = "PAYMENT_005"
	codeDuplicate         = "BILL_001"
	codeNotCancellable    = "BILL_002"
	codeNotFound          = "BILL_003"
	codeNoTransaction     = "BILL_005"
	codeNotSendable       = "BILL_006"
	codeLongID            = "BILL_007"
	codeBadSendType       = "BILL_008"
	codeNoTalk            = "BILL_009"
	codeNoURL             = "BILL_010"
	codeNoPoints          = "POINT_001"
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
