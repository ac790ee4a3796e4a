package sandbox

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
	codeNoNetwork         = "PAYMENT_001"
	codeCancelFailed      = "PAYMENT_002"
	codeBelowMinimum      = "PAYMENT_003"
	codeNoMethod          = "PAYMENT_004"
	codeBelowDevelopment  = "PAYMENT_005"
	codeDuplicate         = "BILL_001"
	codeNotCancellable    = "BILL_002"
	codeNotFound          = "BILL_003"
	codeUnreadableCard    = "BILL_004"
	codeNoTransaction     = "BILL_005"
	codeNotSendable       = "BILL_006"
	codeLongID            = "BILL_007"
	codeBadSendType       = "BILL_008"
	codeNoTalk            = "BILL_009"
	codeNoURL             = "BILL_010"
	codeNoPoints          = "POINT_001"
	codeMaintained        = "MAINTAINED_METHOD"
)

// catalogue has the codes of the document in their order, with their texts.
var catalogue = [...]struct{ code, text string }{
	{codeSuccess, "성공하였습니다."},
	{codeError, "알 수 없는 오류가 발생하였습니다."},
	{codeNotLinked, "v2 하위 사업장 연동을 지원하지 않는 파트너입니다."},
	{codeBadKey, "연동 키가 없거나 형식이 올바르지 않습니다."},
	{codeUnknownKey, "파트너, 매장 또는 결제 수단을 찾을 수 없습니다."},
	{codeNoMerchant, "매장 인증 정보를 찾을 수 없습니다."},
	{codeNoPartner, "존재하지 않는 파트너입니다."},
	{codeNoContract, "유효한 파트너 계약이 없습니다."},
	{codeNotGranted, "요청하신 서비스의 이용 권한이 없습니다."},
	{codeMappingMissing, "연동 키, 회원 코드 또는 매장 코드가 없습니다."},
	{codeBadBusinessNumber, "사업자등록번호는 숫자 10자리여야 합니다."},
	{codeNoReview, "매장 심사(신청) 정보를 찾을 수 없습니다."},
	{codeTemporaryDeleted, "삭제된 임시 사업장에는 연결할 수 없습니다."},
	{codeTemporaryMapped, "이미 연결된 임시 사업장입니다."},
	{codeNotOpened, "연결할 매장 중 개통된 매장이 없습니다."},
	{codeMemberState, "연결하거나 처리할 수 없는 회원 상태입니다."},
	{codeInvalid, "필수 값이 없거나 형식이 올바르지 않습니다."},
	{codeBadHash, "해시 값이 일치하지 않습니다."},
	{codeBadPhone, "휴대전화 번호 형식이 올바르지 않습니다."},
	{codeNoNetwork, "카드사 또는 현금영수증 발급 응답이 없거나 실패하였습니다."},
	{codeCancelFailed, "결제 취소에 실패하였습니다."},
	{codeBelowMinimum, "청구 금액은 100원 이상이어야 합니다."},
	{codeNoMethod, "결제 수단을 조회할 수 없거나 사용할 수 없습니다."},
	{codeBelowDevelopment, "개발 환경의 청구 금액은 20,000원 이상이어야 합니다."},
	{codeDuplicate, "이미 사용된 청구서 번호입니다."},
	{codeNotCancellable, "이미 취소되었거나 취소할 수 없는 상태의 청구서입니다."},
	{codeNotFound, "청구서를 찾을 수 없습니다."},
	{codeUnreadableCard, "키인 결제 카드 정보를 복호화할 수 없습니다."},
	{codeNoTransaction, "요청하신 거래 번호의 청구서를 찾을 수 없습니다."},
	{codeNotSendable, "재발송할 수 없는 상태의 청구서입니다."},
	{codeLongID, "청구서 번호는 20자를 넘을 수 없습니다."},
	{codeBadSendType, "발송 유형(TALK 또는 URL)이 올바르지 않습니다."},
	{codeNoTalk, "메시지 발송형 청구서 계약이 없습니다."},
	{codeNoURL, "URL형 청구서 계약이 없습니다."},
	{codeNoPoints, "서비스 포인트가 부족합니다."},
	{codeMaintained, "서비스 점검 중입니다."},
}

// Catalogue returns every code of the document, in its order.
func Catalogue() []string {
	out := make([]string, len(catalogue))
	for i, c := range catalogue {
		out[i] = c.code
	}
	return out
}

// messageOf returns the text of a code. A code that is not in the catalogue, such as 9999, has the text of ERROR.
func messageOf(code string) string {
	for _, c := range catalogue {
		if c.code == code {
			return c.text
		}
	}
	return messageOf(codeError)
}
