package console

import (
	"fmt"
	"net/http"
	"slices"

	"billbridge/translate"
	"billbridge/translate/openapi"
)

// tableFile serves what partners of a form see of the table, as a file for other programs.
func (c *Console) tableFile(w http.ResponseWriter, r *http.Request) {
	config := c.Config()
	forms, form := config.Table.Forms(), translate.Form(r.PathValue("form"))
	write := openapi.Document
	kind := r.PathValue("kind")
	switch {
	case !slices.Contains(forms[:], form), kind != "openapi" && kind != "collection":
		c.site.Refuse(w, r, http.StatusNotFound, "error.path")
		return
	case kind == "collection":
		write = openapi.Collection
	}
	text, err := write(config.Table, form, config.PartnerURL())
	if err != nil {
		c.site.Fail(w, r, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%s.json"`, form, kind))
	_, _ = w.Write(text)
}
