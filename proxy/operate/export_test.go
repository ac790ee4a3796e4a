package operate

import (
	"net/http"
	"reflect"
)

// NewReport makes a report.
var NewReport = newReport

// DecodeLike returns what the door decodes of a request, as a value of the type of like.
func DecodeLike(r *http.Request, like any) (any, error) {
	into := reflect.New(reflect.TypeOf(like))
	err := decode(r, into.Interface())
	return into.Elem().Interface(), err
}
