package sandbox

// Partner is a partner of the service and its contract. The zero values of the
// marks are an ordinary partner that may do everything.
type Partner struct {
	Key  string // at most 32 characters
	Name string
	// Stores are the sub-businesses that are mapped from the start.
	Stores []Store
	// Strict accepts bill calls for mapped stores only; another member or
	// merchant is PARTNER_003. Otherwise any member and merchant will do.
	Strict bool
	// Temporary are the temporary business locations a store can be mapped to.
	Temporary []TemporaryStore

	NotLinked  bool // PARTNER_001 on every sub-business operation
	Removed    bool // PARTNER_005 on every operation
	NoContract bool // PARTNER_006 on every operation
	NoBilling  bool // PARTNER_007 on every bill operation
	NoTalk     bool // BILL_009 on a TALK bill and on any legacy bill
	NoURL      bool // BILL_010 on a URL bill
	// Prepaid partners pay one point for each message that is sent: POINT_001
	// when Points are used up. Points is not looked at otherwise.
	Prepaid bool
	Points  int
}

// Store is a sub-business of a partner.
type Store struct {
	Member    string `json:"member"`
	Merchant  string `json:"merchant"`
	Company   string `json:"company_name"`
	Branch    string `json:"branch_name"`
	CEO       string `json:"ceo_name"`
	Email     string `json:"email"`
	Number    string `json:"business_number"`
	Closed    bool   `json:"closed"`    // PARTNER_MAPPING_006 on a merchant mapping
	Suspended bool   `json:"suspended"` // PARTNER_MAPPING_007 on a merchant mapping
}

// TemporaryStore is a temporary business location (temporaryMerchantCd).
type TemporaryStore struct {
	Code    string
	Deleted bool // PARTNER_MAPPING_004 when a store is mapped to it
}

// DefaultPartners returns the partners a sandbox has unless it is given others.
// The keys are plainly no secrets. Each has the store demo-member / demo-store.
//
//	demo-partner-key   may do everything, for any member and merchant
//	demo-strict-key    only its own stores, else PARTNER_003; has also demo-closed
//	                   (PARTNER_MAPPING_006), demo-suspended (PARTNER_MAPPING_007) and
//	                   the temporary locations TEMP0001 and TEMP0002 (deleted)
//	demo-unlinked-key  PARTNER_001 on sub-business operations
//	demo-removed-key   PARTNER_005
//	demo-expired-key   PARTNER_006
//	demo-nobill-key    PARTNER_007 on bill operations
//	demo-notalk-key    BILL_009: has contracted URL bills only
//	demo-nourl-key     BILL_010: has contracted TALK bills only
//	demo-nopoint-key   POINT_001: its points are used up
func DefaultPartners() []Partner {
	demo := func(merchant string) Store {
		return Store{
			Member: "demo-member", Merchant: merchant,
			Company: "데모상사", Branch: "본점", CEO: "홍길동", Email: "demo@example.com", Number: "1234567890",
		}
	}
	closed, suspended := demo("demo-closed"), demo("demo-suspended")
	closed.Closed, suspended.Suspended = true, true
	closed.Branch, suspended.Branch = "폐점", "정지점"
	stores := []Store{demo("demo-store")}
	return []Partner{
		{Key: "demo-partner-key", Name: "demo", Stores: stores},
		{
			Key: "demo-strict-key", Name: "strict stores", Strict: true,
			Stores:    []Store{demo("demo-store"), closed, suspended},
			Temporary: []TemporaryStore{{Code: "TEMP0001"}, {Code: "TEMP0002", Deleted: true}},
		},
		{Key: "demo-unlinked-key", Name: "no sub-business linking", Stores: stores, NotLinked: true},
		{Key: "demo-removed-key", Name: "no longer there", Stores: stores, Removed: true},
		{Key: "demo-expired-key", Name: "no contract in force", Stores: stores, NoContract: true},
		{Key: "demo-nobill-key", Name: "bill sending not granted", Stores: stores, NoBilling: true},
		{Key: "demo-notalk-key", Name: "no messaging bills", Stores: stores, NoTalk: true},
		{Key: "demo-nourl-key", Name: "no URL bills", Stores: stores, NoURL: true},
		{Key: "demo-nopoint-key", Name: "no points left", Stores: stores, Prepaid: true},
	}
}
