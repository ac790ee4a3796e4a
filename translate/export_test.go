package translate

import "slices"

// Words are the words of a row and of an operation.
var Words = slices.Concat(rowKeys, operationKeys)
