module towline.invalid/dev/tools/actionlint

go 1.26.0

require github.com/rhysd/actionlint v1.7.12
