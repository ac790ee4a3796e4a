package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Partner gives a partner a name.
type Partner struct {
	// the first digits of the SHA-256 of its key, at least 12; of several keys, all digits of the first one
	Hash string `yaml:"-" name:"HASH"`
	// for output, in NFC; in a file with Keys, what stands for the hash can be the name
	Name string `yaml:"name"`
	// the SHA-256 of all its keys; the first one is its identity. If empty, there is one key.
	Keys []string `yaml:"keys"`
}

// Partners are in the order of their hashes.
type Partners []Partner

// shortHash is how many digits of a hash people see, as in package partner.
const shortHash = 12

// notNames are the words that stand for several partners where one is named: Default and All of package operate.
var notNames = []string{"default", "all"}

var (
	partnerHash = regexp.MustCompile(`^[0-9a-f]{12,64}$`)
	keyHash     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Identity returns the ID of the partner whose key has a hash, by the config: the hash of its first key.
func (c *Config) Identity(hash string) string {
	if first, ok := c.further[hash]; ok {
		return first
	}
	return hash
}

// Name returns the name of the partner that Find returns, or "".
func (p Partners) Name(id string) string {
	if one := p.Find(id); one != nil {
		return one.Name
	}
	return ""
}

// FoldName returns a partner's name as names are compared: two that look alike are equal. Files of macOS and what is
// typed there have Korean syllables as their letters (NFD), and other systems have them whole (NFC).
func FoldName(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// Named returns the partner with a name, or nil.
func (p Partners) Named(name string) *Partner {
	folded := FoldName(name)
	if i := slices.IndexFunc(p, func(one Partner) bool { return FoldName(one.Name) == folded }); i >= 0 {
		return &p[i]
	}
	return nil
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

// checkPartners checks names, keys and hashes, and sorts the partners.
func (c *Config) checkPartners() {
	names, claims := map[string]int{}, []keyClaim(nil)
	c.further = map[string]string{}
	for i := range c.Partners {
		one := &c.Partners[i]
		entry := one.Hash
		at := "partners." + escape(entry)
		key, isHash := at+".name", partnerHash.MatchString(entry)
		if len(one.Keys) > 0 {
			claims = append(claims, c.checkKeys(at, entry, one.Keys)...)
			if one.Hash = one.Keys[0]; one.Name == "" && !isHash {
				one.Name, key = entry, at
			}
		} else if claims = append(claims, keyClaim{entry, at}); !isHash {
			c.add(at, "must be 12 to 64 lower-case hex digits of the SHA-256 of the partner's key, "+
				"as billbridge hash prints it, or a name with keys below it")
			continue
		}
		for _, further := range one.Keys {
			c.further[further] = one.Hash
		}
		one.Name = norm.NFC.String(one.Name)
		invisible := strings.ContainsFunc(one.Name, func(r rune) bool { return !unicode.IsPrint(r) })
		folded := FoldName(one.Name)
		switch n := utf8.RuneCountInString(one.Name); {
		case n == 0:
			c.add(key, "is needed, such as Hana Clinic")
		case n > 60 || invisible || strings.TrimSpace(one.Name) != one.Name:
			c.add(key, "must be 1 to 60 printable characters without a space at the beginning or end")
		case slices.Contains(notNames, folded) || partnerHash.MatchString(one.Name):
			c.add(key, "must not be default, all or 12 to 64 hex digits: "+
				"where a partner is named, these mean something else")
		case names[folded] != 0:
			c.addf(key, "is the name of the partner on line %d, too: upper and lower case count as equal, "+
				"and so do the two ways in which Unicode writes a letter", names[folded])
		default:
			names[folded] = c.find(key).Line
		}
	}
	slices.SortFunc(c.Partners, func(a, b Partner) int { return strings.Compare(a.Hash, b.Hash) })
	slices.SortStableFunc(claims, func(a, b keyClaim) int { return strings.Compare(a.hash, b.hash) })
	for i := 1; i < len(claims); i++ {
		one, before := claims[i], claims[i-1]
		if partnerHash.MatchString(before.hash) && strings.HasPrefix(one.hash, before.hash) {
			c.addf(one.at, "names the same partner as line %d: it begins with the same digits", c.find(before.at).Line)
		}
	}
}

// A keyClaim is a place of the file that names a key of a partner.
type keyClaim struct{ hash, at string }

// checkKeys checks the keys of one partner. A key needs all its digits: the first ones could be those of another
// partner's key, which would then be taken for this partner.
func (c *Config) checkKeys(partner, entry string, keys []string) (claims []keyClaim) {
	for i, key := range keys {
		at := fmt.Sprintf("%s.keys[%d]", partner, i)
		switch {
		case !keyHash.MatchString(key):
			c.add(at, "must be all 64 lower-case hex digits of the SHA-256 of a key of the partner")
		case i == 0 && partnerHash.MatchString(entry) && !strings.HasPrefix(key, entry):
			c.add(at, "must begin with the digits of the partner: the first key is its identity")
		default:
			claims = append(claims, keyClaim{key, at})
		}
	}
	return claims
}
