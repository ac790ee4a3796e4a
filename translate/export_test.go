package translate

import "slices"

// Keys are the keys of rows and of operations.
var Keys = slices.Concat(rowKeys, operationKeys)
