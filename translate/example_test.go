package translate_test

import (
	"fmt"

	"billbridge/translate"
)

// A table of another domain. Two depots exchange messages about parcels: "plain" has all fields at the top level, "boxed" has the
// parcel in an object and the result of a reply under "result".
const parcels = `
forms:
  boxed: {code: status, text: says, result: result, numbers: json}
  plain: {code: st, text: txt, numbers: text}
operations:
  parcel.send:
    boxed: /parcels
    plain: /send.php
    effect: write
    request:
      parcel.to:     {plain: addressee, required: true}
      parcel.grams:  {plain: weight, as: digits}
      parcel.speed:  {plain: express, values: [{boxed: fast, plain: "Y"}, {boxed: slow, plain: "N"}]}
      parcel.colour: {fill: brown}
    reply:
      number:        {plain: nr, as: digits}
      addressee:     {boxed: null, plain: addressee, fill: $parcel.to}
codes: {success: OK, malformed: [WRONG]}
unknown: {request: drop} # a field without a row is dropped and counted
roles:
  sender: {same: must} # who sent the parcel
  parcel: {same: must} # its number
`

func Example() {
	table, err := translate.Compile(16, translate.File{Name: "parcels.yaml", Data: []byte(parcels)})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := table.Operation("parcel.send").Translation("plain", "boxed").Start()
	defer call.Release()

	request, err := call.Request(nil, []byte(`{"addressee": "김하늘", "weight": "0750", "express": "Y"}`))
	fmt.Println(string(request), err)

	request, err = call.Request(nil, []byte(`{"addressee": "김하늘", "weight": "750", "express": "Y", "stamp": 3}`))
	fmt.Println(string(request), err)
	fmt.Println("defaulted", call.Report.Defaulted, "unknown", call.Report.UnknownNames)

	reply, err := call.Reply(nil, 200, []byte(`{"status": "OK", "says": "on its way", "result": {"number": 20261121000017}}`))
	fmt.Println(string(reply), err)
	fmt.Println("echoed", call.Report.Echoed, "success", call.Succeeded())

	_, err = call.Reply(nil, 200, []byte(`<html>Bad Gateway</html>`))
	fmt.Println(err)

	// Output:
	//  WRONG weight: has the wrong type: want a whole number in digits, got text with a leading zero
	// {"parcel":{"to":"김하늘","grams":750,"speed":"fast","colour":"brown"}} <nil>
	// defaulted [parcel.colour] unknown [stamp]
	// {"st":"OK","txt":"on its way","nr":"20261121000017","addressee":"김하늘"} <nil>
	// echoed [addressee] success true
	// unusable reply: not JSON at byte 0
}

// A carrier notifies the sender that a parcel has arrived. It sends the callback in its own form and expects the answer in that form.
// The sender's server speaks only the other form.
func ExampleCallback() {
	const arrivals = parcels + `
callbacks:
  parcel.arrived:
    method: POST
    result: {boxed: parcel}
    request:
      sender: {plain: from, role: sender}
      number: {plain: nr, role: parcel, as: digits}
      grams:  {plain: weight, as: digits}
    answer:
      boxed: '{"status":"OK"}'
      plain: '{"st":"OK"}'
`
	table, err := translate.Compile(16, translate.File{Name: "parcels.yaml", Data: []byte(arrivals)})
	if err != nil {
		fmt.Println(err)
		return
	}
	callback := table.Callback

	toSender, notice, err := callback.Translate(nil, []byte(`{"parcel": {"sender": "depot-7", "number": 20261121000017, "grams": 750.5}}`), "boxed", "plain")
	fmt.Println(string(toSender), err)
	fmt.Println(notice.Recognised, notice.Values["sender"], notice.Values["parcel"], notice.Report.Mismatched)

	if _, ok := callback.Answered("plain", []byte(`{"st": "OK", "txt": "thank you"}`)); ok {
		fmt.Println(string(callback.Answer("boxed")))
	}

	_, notice, err = callback.Translate(nil, []byte(`are you there?`), "boxed", "plain")
	fmt.Println(notice.Recognised, err)

	_, _, err = callback.Translate(nil, []byte(`{"parcel": {"number": 17, "numb\u0065r": 18}}`), "boxed", "plain")
	fmt.Println(err)

	// Output:
	// {"from":"depot-7","nr":"20261121000017","weight":750.5} <nil>
	// translated [depot-7] [20261121000017] [parcel.grams]
	// {"status":"OK"}
	// unrecognised <nil>
	// WRONG parcel.number: the name appears twice
}
