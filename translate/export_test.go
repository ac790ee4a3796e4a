package translate

import "reflect"

// Keys are the keys of rows and of operations.
var Keys = func() (keys []string) {
	for _, t := range []reflect.Type{reflect.TypeFor[row](), reflect.TypeFor[operationKeys]()} {
		for _, k := range keysOf(t, nil) {
			keys = append(keys, k.key)
		}
	}
	return keys
}()

// SentCode returns the code of the reply as the upstream wrote it.
func SentCode(c *Call) string { return c.code }

// Code translates a code by the table's pairs.
func (t *Table) Code(code string, from, to Form) string {
	return t.Envelope(from).form.paired(t.Envelope(to).form, code)
}
