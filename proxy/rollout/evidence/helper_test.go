package evidence_test

import (
	"billbridge/config"
)

const someone = "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3a94a8fe5ccb19ba61c4c0873"

var config120 = config.Shadow{Rate: 1, InFlight: 1000, Bytes: 64 << 20}
