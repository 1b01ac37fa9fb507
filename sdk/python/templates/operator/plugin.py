"""Makes values upper-case; records without text go to the side output `rejected`."""

import weir


class {{Name}}(weir.Operator):
    name, version = "{{name}}", "0.1.0"
    side_outputs = ("rejected",)

    def process(self, record: weir.Record, out: weir.Output) -> None:
        if not record.value:
            out.side("rejected").forward(record)
            return
        # Key, event time and headers stay. A value that is no UTF-8 makes this a bad record.
        out.forward(record, record.text().upper().encode())
