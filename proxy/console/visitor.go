package console

import (
	"net/http"
	"strings"

	"billbridge/proxy/pages"
)

// by returns the name for the audit log: that of the token, or without tokens what the visitor typed into the field by.
func by(r *http.Request) string {
	if name := pages.VisitorOf(r).Name; name != "" {
		return name
	}
	return strings.TrimSpace(r.PostFormValue("by"))
}
