// Self-signed certificate and private key for `secure.test`, its subdomains and 127.0.0.1. For tests only: the key is public.

export const CERTIFICATE: string = `-----BEGIN CERTIFICATE-----
MIIBeTCCAR+gAwIBAgIBATAKBggqhkjOPQQDAjAWMRQwEgYDVQQDDAtzZWN1cmUu
dGVzdDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowFjEUMBIGA1UE
AwwLc2VjdXJlLnRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARi7zrbIfeu
P5Ko7khuKYFVNoIqt3JgemRac6Ryl5iFfQ14Ezbq0leLAxsfA+OeGpjAYLMGHGfr
qtJhYzqoPryJo1wwWjArBgNVHREEJDAiggtzZWN1cmUudGVzdIINKi5zZWN1cmUu
dGVzdIcEfwAAATAMBgNVHRMEBTADAQH/MB0GA1UdDgQWBBT8er+sVzGYF/vx+3/M
WGI2I7A+dzAKBggqhkjOPQQDAgNIADBFAiAQKCumWtN6ulInPPQacmyjNNjdFnHC
dnDNwvHmY38RHQIhAPSTD13nGn/m1C3chpQwgw4k6AuQjjULZprMdZ8nFOFq
-----END CERTIFICATE-----`;

export const KEY: string = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgABnboObEWKgoY5XX
/q9650NOf6XrJNMyZVl/+Noq8PGhRANCAARi7zrbIfeuP5Ko7khuKYFVNoIqt3Jg
emRac6Ryl5iFfQ14Ezbq0leLAxsfA+OeGpjAYLMGHGfrqtJhYzqoPryJ
-----END PRIVATE KEY-----`;
