package proxy

import "billbridge/config"

// Config returns the config in force.
func (g *Gateway) Config() *config.Config { return g.current.Load().config }
