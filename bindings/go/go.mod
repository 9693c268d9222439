module atbus.dev/go

go 1.19
