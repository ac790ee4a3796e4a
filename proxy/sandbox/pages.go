package sandbox

import "net/http"

// Where the pages are that replies point to; a token follows.
const (
	payPath    = "/b/"
	signUpPath = "/signup/"
)

// page shows and takes the pages of the customer and of the one who signs up.
func (s *Service) page(w http.ResponseWriter, r *http.Request) {
	http.NotFound(w, r)
}
