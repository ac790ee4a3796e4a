package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// A Partner is what people know of a partner.
type Partner struct {
	Hash string `yaml:"-"`                      // the first digits of the SHA-256 of its key, at least 12
	Name string `yaml:"name" config:"required"` // for output
}

// Partners are in the order of their hashes.
type Partners []Partner

// shortHash is how many digits of a hash people see, as in package partner.
const shortHash = 12

var partnerHash = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// Name returns the name of the partner with an ID, full or its first digits, at least 12. It returns "" if the partner has no name, or if
// the digits are those of several.
func (p Partners) Name(id string) (name string) {
	if len(id) < shortHash {
		return ""
	}
	at, _ := slices.BinarySearchFunc(p, id[:shortHash], func(one Partner, short string) int { return strings.Compare(one.Hash[:shortHash], short) })
	for ; at < len(p) && strings.HasPrefix(p[at].Hash, id[:shortHash]); at++ {
		if !strings.HasPrefix(id, p[at].Hash) && !strings.HasPrefix(p[at].Hash, id) {
			continue
		}
		if name != "" {
			return ""
		}
		name = p[at].Name
	}
	return name
}

// UnmarshalYAML reads the partners.
func (p *Partners) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return errors.New("must name partners, such as 5f7b2ed74a97: {name: Hana Clinic}")
	}
	var mistakes yaml.LoadErrors // of all partners, not only of the first bad one
	for i := 0; i+1 < len(n.Content); i += 2 {
		one := Partner{Hash: n.Content[i].Value}
		if err := n.Content[i+1].Load(&one, yaml.WithKnownFields()); err != nil {
			var many *yaml.LoadErrors
			if !errors.As(err, &many) {
				return err
			}
			mistakes.Errors = append(mistakes.Errors, many.Errors...)
		}
		*p = append(*p, one)
	}
	if len(mistakes.Errors) > 0 {
		return &mistakes
	}
	return nil
}

// checkPartners checks hashes and names, and sorts the partners. Its errors show no bad hash: it may be a key.
func (c *Config) checkPartners() {
	s, names := c.source, map[string]string{}
	for _, one := range c.Partners {
		if !partnerHash.MatchString(one.Hash) {
			s.addProblem("must be 12 to 64 lower-case hex digits of the SHA-256 of the partner's key, as billbridge hash prints it", "partners", one.Hash)
			continue
		}
		outside := strings.ContainsFunc(one.Name, func(r rune) bool { return !unicode.IsPrint(r) })
		folded := strings.ToLower(one.Name)
		switch n := utf8.RuneCountInString(one.Name); {
		case one.Name == "":
			s.addProblem("is needed, such as Hana Clinic", "partners", one.Hash, "name")
		case n > 60 || outside || strings.TrimSpace(one.Name) != one.Name:
			s.addProblem(fmt.Sprintf("must be 1 to 60 printable characters without a space at the beginning or end, but is %q", one.Name), "partners", one.Hash, "name")
		case names[folded] != "":
			s.addProblem("is the name of "+names[folded]+", too: upper and lower case count as equal", "partners", one.Hash, "name")
		default:
			names[folded] = shownHash(one.Hash)
		}
	}
	slices.SortFunc(c.Partners, func(a, b Partner) int { return strings.Compare(a.Hash, b.Hash) })
	for i := 1; i < len(c.Partners); i++ {
		if one, before := c.Partners[i].Hash, c.Partners[i-1].Hash; partnerHash.MatchString(before) && strings.HasPrefix(one, before) {
			s.addProblem("names the same partner as "+shownHash(before)+": it begins with the same digits", "partners", one)
		}
	}
}

// shownHash returns what an error shows of a hash: a partner's key may be in its place, and can look like one.
func shownHash(hash string) string {
	if !partnerHash.MatchString(hash) {
		return notShown
	}
	return hash[:shortHash]
}
