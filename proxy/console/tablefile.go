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
	if !slices.Contains(forms[:], form) {
		c.site.Refuse(w, r, http.StatusNotFound, "error.path")
		return
	}
	text, err := openapi.Document(config.Table, form, config.PartnerURL())
	if err != nil {
		c.site.Fail(w, r, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-openapi.json"`, form))
	_, _ = w.Write(text)
}
