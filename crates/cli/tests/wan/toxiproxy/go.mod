module toxiproxy-client

go 1.20

require github.com/Shopify/toxiproxy/v2 v2.5.0
