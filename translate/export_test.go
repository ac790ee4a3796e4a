package translate

import "reflect"

// Keys are the keys of rows and of operations.
var Keys = func() (keys []string) {
	s := &source{keys: map[reflect.Type][]keyOfField{}}
	for _, t := range []reflect.Type{reflect.TypeFor[row](), reflect.TypeFor[operationKeys]()} {
		for _, k := range s.keysOf(t) {
			if k.key != "" {
				keys = append(keys, k.key)
			}
		}
	}
	return append(keys, "remove", "replaces")
}()

// Lists returns how many lists a call keeps.
func Lists(c *Call) int { return len(c.lists) }

// Back returns a request that a dialect has translated as the table describes it.
func (d *Dialect) Back(operation string, src []byte) ([]byte, error) {
	request := d.messages[operation].request
	if request == nil {
		return src, nil
	}
	var rows []*row
	for _, f := range request.fields {
		rows = append(rows, f.row)
	}
	received, refusal := request.table.dialectPlan(callbackMessage, rows, 1).rewrite(src)
	if refusal != nil {
		return nil, refusal
	}
	return received.Body, nil
}
