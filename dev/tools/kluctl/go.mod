module towline.invalid/dev/tools/kluctl

go 1.21

require github.com/kluctl/kluctl/v2 v2.22.1
