package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Partner gives a partner a name.
type Partner struct {
	// the first digits of the SHA-256 of its key, at least 12
	Hash string `yaml:"-" name:"HASH"`
	Name string `yaml:"name" config:"required" such:", such as Hana Clinic"` // for output

	Callbacks PartnerCallbacks `yaml:"callbacks"`
	Failures  PartnerFailures  `yaml:"failures"`
}

// PartnerCallbacks is what differs from [Callbacks] for one partner.
type PartnerCallbacks struct {
	Success Success `yaml:"success" words:"documented any-2xx"` // "" for that of all partners
}

// PartnerFailures is what differs from [Failures] for one partner.
type PartnerFailures struct {
	Language Language `yaml:"language" words:"ko en both"` // "" for that of all partners
}

// Partners are in the order of their hashes.
type Partners []Partner

// shortHash is how many digits of a hash people see, as in package partner.
const shortHash = 12

var partnerHash = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// Name returns the name of the partner that Find returns, or "".
func (p Partners) Name(id string) string {
	if one := p.Find(id); one != nil {
		return one.Name
	}
	return ""
}

// Find returns the partner with an ID, full or its first digits, at least 12. It returns nil if the config does not
// have it, or if the digits are those of several.
func (p Partners) Find(id string) (found *Partner) {
	if len(id) < shortHash {
		return nil
	}
	at, _ := slices.BinarySearchFunc(p, id[:shortHash], func(one Partner, short string) int {
		return strings.Compare(one.Hash[:shortHash], short)
	})
	for ; at < len(p) && strings.HasPrefix(p[at].Hash, id[:shortHash]); at++ {
		if !strings.HasPrefix(id, p[at].Hash) && !strings.HasPrefix(p[at].Hash, id) {
			continue
		}
		if found != nil {
			return nil
		}
		found = &p[at]
	}
	return found
}

// checkPartners checks hashes and names, and sorts the partners.
func (c *Config) checkPartners() {
	s, names := c.source, map[string]int{}
	for _, one := range c.Partners {
		if !partnerHash.MatchString(one.Hash) {
			s.addProblem("must be 12 to 64 lower-case hex digits of the SHA-256 of the partner's key, "+
				"as billbridge hash prints it", "partners", one.Hash)
			continue
		}
		at := []string{"partners", one.Hash, "name"}
		invisible := strings.ContainsFunc(one.Name, func(r rune) bool { return !unicode.IsPrint(r) })
		folded := strings.ToLower(one.Name)
		switch n := utf8.RuneCountInString(one.Name); {
		case n > 60 || invisible || strings.TrimSpace(one.Name) != one.Name:
			s.addProblem("must be 1 to 60 printable characters without a space at the beginning or end", at...)
		case names[folded] != 0:
			s.addProblem(fmt.Sprintf("is the name of the partner on line %d, too: upper and lower case count as equal",
				names[folded]), at...)
		default:
			names[folded] = s.position(at...).Line
		}
	}
	slices.SortFunc(c.Partners, func(a, b Partner) int { return strings.Compare(a.Hash, b.Hash) })
	for i := 1; i < len(c.Partners); i++ {
		one, before := c.Partners[i].Hash, c.Partners[i-1].Hash
		if partnerHash.MatchString(before) && strings.HasPrefix(one, before) {
			line := s.position("partners", before).Line
			s.addProblem(fmt.Sprintf("names the same partner as line %d: it begins with the same digits", line),
				"partners", one)
		}
	}
}
