package proxy

import (
	"billbridge/config"
	"billbridge/translate"
)

// checkHash checks the hash of the request, and renews it for the upstream, if the config says so.
func (x *exchange) checkHash(request []byte) ([]byte, error) {
	u := x.to.target.upstream.config
	if u.Hash != config.HashVerify && u.Hash != config.HashRenew || !x.route.operation.HasHash() {
		return request, nil
	}
	secret, err := x.hashSecret(x.client)
	if err == nil {
		err = x.call.VerifyHash(secret)
	}
	if err != nil || u.Hash == config.HashVerify {
		return request, err
	}
	if secret, err = x.hashSecret(u.Form); err != nil {
		return nil, err
	}
	return x.call.RenewHash(request, secret)
}

// hashSecret returns the secret of the partner for hashes of a form, if they need one.
func (x *exchange) hashSecret(form translate.Form) (string, error) {
	c := x.state.config
	if !c.Table.HashNeedsSecret(form) {
		return "", nil
	}
	if partner := c.Partners.Find(string(x.partner())); partner != nil && partner.HashSecret[string(form)].IsSet() {
		return partner.HashSecret[string(form)].Reveal(), nil
	}
	return "", noHashSecret.with("not_sent")
}
