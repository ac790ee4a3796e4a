package rollout

import (
	"errors"
	"time"

	"billbridge/proxy/desk/certificate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
)

// certificateOf returns the certificate of a partner, or nil.
func (s *Settings) certificateOf(id partner.ID) *certificate.Certificate {
	if one := s.Names.Find(string(id)); s.desk && one != nil {
		return one.Certificate
	}
	return nil
}

// clientTime is how long a client that is not certified counts after its last create.
const clientTime = 24 * time.Hour

// Certified returns what the certificate of a partner says about its move to the new backend, zero if the config has
// no key of a desk. ok is whether it is certified for that: for its own form, through a gateway if the backend has the
// other one, and for the client that it uses.
func (f *Facts) Certified(id partner.ID) (note evidence.Note, ok bool) {
	s, now := f.Settings, f.now()
	if !s.desk {
		return evidence.Note{}, false
	}
	c := s.certificateOf(id)
	if c == nil {
		return evidence.Say("certificate_none"), false
	}
	switch err := c.Valid(now); {
	case errors.Is(err, certificate.ErrExpired):
		return evidence.Say("certificate_ended", c.Expires), false
	case err != nil:
		return evidence.Say("certificate_cases"), false
	case !c.Via && c.Form != s.form:
		return evidence.Say("certificate_direct", c.Form, s.form), false
	}
	marked, err := f.marked()
	if err != nil {
		return evidence.Say("unchecked", err), false
	}
	for _, n := range marked.Counts {
		for client, at := range n.Clients {
			if n.Partner == id && !c.Has(client) && now.Sub(at) < clientTime {
				return evidence.Say("certificate_client", client, at), false
			}
		}
	}
	if c.Via {
		return evidence.Say("certificate_via", c.Form, c.Expires), true
	}
	return evidence.Say("certificate", c.Form, c.Expires), true
}

// Uncertified are the reasons against any step forward of a partner in a wave that asks for certificates.
func (f *Facts) Uncertified(id partner.ID) []BlockingReason {
	note, ok := f.Certified(id)
	switch {
	case ok:
		return nil
	case note.Kind == "":
		note = evidence.Say("certificate_no_desk")
	}
	return reasonsOf(Uncertified, note)
}
