package console

import (
	"cmp"
	"net/http"
	"strings"

	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
)

// by returns who decides and why, for the audit log: the name is that of the token, or without tokens what the visitor
// typed into the field by.
func by(r *http.Request) operate.Author {
	field := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	return operate.Author{By: cmp.Or(pages.VisitorOf(r).Name, field("by")), Reason: field("reason")}
}
