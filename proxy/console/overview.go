package console

import (
	"net/http"

	"billbridge/config"
)

// An overviewPage is the data of the page overview.
type overviewPage struct {
	Upstreams config.Upstreams
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	c.page(w, r, "overview", overviewPage{Upstreams: c.options.Config().Upstreams})
}
