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
	return keys
}()
