/** Computing: files, data, networks, programs and the work on them. */
export const things = `
file document doc item ~path ~content
folder directory tree path dir ~files
disk drive storage space hard_disk ssd volume ~full ~memory
archive zip tar tarball gz 7z rar bundle ~compress
big large huge biggest largest giant heavy long ~size
small little tiny smaller mini ~compress ~short
size big dimension length bytes how_big volume space pixel ~large
short brief shorter shorten ~small
old older past age stale ancient former ~previous ~history
new recent fresh latest newest current newly ~update
duplicate identical same copy copies repeated redundant double deduplicate dedupe twin ~equal
missing empty gap blank nan null none absent lacking hole ~incomplete
equal same identical ~similar
similar alike close resemble like near comparable similarity ~same
different difference differ distinct changed unlike ~compare
random arbitrary chance sample few ~generate
sample subset few some excerpt arbitrary ~random
backup snapshot safety_copy dump save keep_safe ~copy ~restore
temporary temp cache junk trash garbage rubbish ~clean
checksum hash digest fingerprint integrity sha md5 ~verify
encoding charset character_set utf-8 utf latin-1 unicode garbled mojibake umlaut umlauts ~convert
line_ending crlf lf newline windows unix carriage_return ~line
windows microsoft crlf ~pc
log logs journal logfile messages records history access_log ~error ~server
error failure fault bug exception problem crash broken fail defect issue trouble ~wrong
bug defect issue error ticket problem fault ~report
broken dead error fail failing 404 invalid corrupt ~wrong
spreadsheet excel xlsx workbook worksheet sheet csv office microsoft_office table calc ~rows
csv comma_separated spreadsheet table delimited tsv ~data
json object objects records document structured ~data
word docx office microsoft_office letter ~document
excel xlsx office microsoft_office spreadsheet ~table
powerpoint pptx slides deck presentation keynote talk ~office
pdf acrobat ebook printable ~document
table dataset dataframe spreadsheet rows columns data tabular ~records
data dataset records information table values ~facts
row record entry line observation ~item
column field feature variable header attribute ~table
header headers heading ~column
schema structure format shape model ~columns
pivot cross_tabulate crosstab aggregate group_by breakdown ~summary
outlier extreme anomaly unusual abnormal strange odd weird deviant exceptional ~detect
anomaly unusual strange abnormal outlier odd irregular suspicious spike ~detect
quality profile overview condition ~check
database db sql table postgres postgresql sqlite mysql mongodb redis ~data
sql query select statement database lookup ~db
query lookup question request search ~sql
index indexes indices ~fast
slow long takes_long performance latency sluggish lag delay bottleneck speed ~fast
fast quick speed rapid tempo performance quickly swift ~slow
performance speed fast slow latency benchmark load_test throughput ~measure
latency respond response_time delay round_trip load_test ~speed
benchmark load_test stress_test performance ~measure
migration upgrade revision schema_change pending ~schema
relation relationship relate connected association link ~between
diagram chart graph visualise drawing sketch schema ~draw
web internet online www website site http ~page
website site homepage web_page page url webpage landing_page blog portal ~web
page website site ~document
url link address hyperlink href uri web_address ~web
link url hyperlink reference ~connect
html markup web_page ~web
crawl scrape spider harvest ~web
screenshot capture snapshot ~image
browser chrome firefox client user_agent ~web
feed rss atom news blog articles subscription headlines ~read
domain host name internet_address registration dns owner owns ~site
dns nameserver resolve mx txt record zone ~domain
whois owner owns registrant registration domain ~who
certificate ssl tls https cert valid expiry expire ~security
expire expiry valid validity end deadline run_out ~until
port tcp udp socket listen network_service ~open
network internet connection tcp lan wifi connect ~server
server host machine computer backend node remote vm box ~service
host server machine hosts ~computer
computer machine pc hardware laptop system ~server
hardware cpu memory processor ram computer device ~system
ping reachable reach round_trip respond alive ~host
online uptime up available reachable down offline outage ~monitor
offline down outage unavailable unreachable ~uptime
api endpoint rest service interface backend graphql openapi http ~call
request call http query ~send
webhook callback hook payload ~post
visitor user client guest traffic ~web
traffic visitors access hits statistics requests ~web
ip address internet_address connection connecting ~location
country nation land state nationality ~where
image picture photo photograph snapshot bitmap graphic png jpeg jpg artwork drawing figure still selfie ~visual
photo picture snapshot camera image photograph shot selfie ~image
graphic image bitmap figure picture ~draw
pixel resolution width height dimensions ~size
background backdrop behind scene transparent isolate cutout ~image
watermark copyright brand logo stamp ~image
logo brand copyright trademark emblem ~watermark
ocr scan scanned photographed recognise_text handwriting printed_text ~image
scan scanned scanner digitise photographed ~read
exif metadata lens camera gps position taken ~photo
metadata exif info information properties attributes gps tags ~data
camera lens photo shutter ~photo
thumbnail preview small_picture icon miniature ~image
collage grid montage mosaic ~images
colour color colours palette hue tint shade ~image
face person people human portrait persons ~photo
qr qr_code barcode scan code smartphone ~image
barcode ean upc scan ~qr
gif animation animated loop looping moving ~frames
frame still stills sequence screenshot ~video
video movie film clip footage mp4 recording ~media
movie film cinema video actor cast acted starring ~clip
clip part cut excerpt segment minute ~video
audio sound music track voice podcast recording mp3 speech wav ~song
music song track audio sound tune melody ~mp3
song track music tune melody ~audio
sound audio noise music acoustic wave ~signal
podcast recording audio episode ~interview
recording audio tape podcast interview ~video
silence quiet pause pauses mute ~gap
volume loud loudness quiet ~audio
tempo beat bpm rhythm pace fast ~music
subtitle subtitles caption captions srt ~video
codec resolution bitrate format ~video
speech voice talk spoken said interview utterance conversation ~audio
voice speak speech spoken aloud ~audio
text words paragraph prose writing article passage sentence document note ~letter
article blog paper essay text story post ~page
paper article publication study research thesis essay ~document
chapter section part pages ~book
paragraph text passage section ~sentence
sentence phrase text statement ~paragraph
word term vocabulary expression ~text
language french spanish german english portuguese italian chinese tongue ~translate
spelling typo typos misspelled misspelling mistake orthography ~word
grammar syntax mistakes language_errors ~prose
mistake error typo wrong slip ~fix
sentiment emotion feeling mood positive negative happy angry sad opinion attitude ~review
opinion review feedback sentiment rating ~survey
keyword term important_words central_concept concept topic main_idea tag ~text
topic subject theme about category concept ~keyword
important main central key crucial major most ~top
entity person place organisation company city names mentioned ~text
readability difficult hard easy children complex simple understandable ~text
difficult hard complicated complex challenging ~easy
version revision release edition ~update
frequency often count occurrences ~number
markdown md ~html
personal private privacy sensitive confidential ~data
email mail e-mail message letter inbox contact ~send
inbox mailbox unread new_mail incoming messages ~email
newsletter mailing_list subscription spam ~email
spam junk_mail ham unwanted ~email
contact contacts address phone email ~person
template form pattern placeholder ~document
regex regular_expression pattern ~match
title headline heading name catchy caption ~text
tone style polite formal friendly voice manner ~write
polite formal courteous friendly kind nicer ~tone
letter mail document ~write
form questionnaire fields ~fill
password secret passphrase credential login pin account ~security
secret password key credential token confidential private ~hidden
credential credentials key password token secret login bearer ~security
token bearer jwt credential access ~auth
key secret credential ~encrypt
login account sign_in authentication credentials auth two-factor authenticator ~password
two-factor 2fa otp totp authenticator one_time mfa pin ~login
breach leak leaked exposed hacked hackers stolen compromised pwned ~security
leak leaked exposed breach spill ~secret
security vulnerability insecure unsafe hack exploit threat attack safe ~protect
vulnerability insecure weakness cve security_hole exploit ~risk
id identifier uuid guid unique_id key ~unique
unique guid distinct ~id
code source program script software snippet function programming ~developer
program application app software script executable process ~code
application app program software tool ~service
function method routine procedure subroutine ~code
snippet code fragment piece ~example
software project code program codebase application ~repository
project plan undertaking software milestone ~work
repository repo git version_control codebase project ~code
git version_control repository commit branch revision ~code
commit revision change changeset check_in ~git
branch feature_branch line feature ~git
author writer wrote contributor who authors ~person
pull_request merge_request patch code_change pr merge propose ~git
patch change diff fix code_change ~update
issue ticket bug defect task problem ~tracker
ticket issue bug_report request ~support
changelog release_notes what_is_new new_features news changes ~version
test tests test_suite unit_test check checks spec green pass ~verify
coverage untested tested covered ~tests
unused dead unreachable unnecessary superfluous obsolete ~remove
format style indentation layout prettify beautify tidy formatting ~code
lint static_analysis style warning code_quality ~check
warning caution alert hint ~error
dependency package library module import libraries third-party ~install
library package dependency module framework ~code
outdated old newer_version upgrade upgraded behind obsolete deprecated ~update
license licence legal copyright ~rights
documentation docs comments docstring manual guide ~explain
java python rust javascript c++ go programming_language ~code
programming_language language java python rust ~code
memory ram leak allocate heap ~usage
cpu processor core load usage ~hardware
complexity complicated cyclomatic complex nested ~code
module import package component ~code
docker container containerise image dockerfile podman ~deploy
container docker pod ~instance
kubernetes cluster pod k8s helm replicas orchestrat ~container
cluster kubernetes nodes pods ~group
replica instance copies worker node ~scale
instance replica machine worker ~server
service unit daemon app server backend ~system
production live release prod ~deploy
infrastructure terraform cloud servers resources ~deploy
cloud aws amazon s3 azure gcp bucket ~server
amazon aws s3 cloud ~shop
bucket s3 cloud_storage object_storage ~cloud
remote ssh another_machine distant ~server
command shell terminal execute instruction ~run
process program task running application pid ~job
frozen hang stuck unresponsive not_responding ~kill
operating_system os linux windows mac system ~computer
environment variables settings config configuration ~deploy
settings config configuration options parameters preferences ~setup
cron schedule timer recurring periodic crontab fire ~job
queue line waiting ~list
full left free remaining available used ~space
status state health condition how_is ~check
output print printed stdout ~log
context_window tokens prompt token context length limit fit ~model
prompt instruction llm ai model context ~text
vector embedding embeddings semantic ~similar
model classifier ai machine_learning neural predictor prediction ~train
accuracy precision quality correct error_rate ~model
label class category target tag ~classify
feature input variable driver factor influence drives ~model
influence drives affect impact cause importance factor ~important
hyperparameter learning_rate depth settings parameters ~tune
cluster group segment types similar ~customers
object thing item content ~image
dashboard overview charts panel ~report
chart graph plot diagram figure visualization curve ~draw
line trend curve develop over_time course ~chart
bar bars category columns ~chart
histogram distribution spread ages frequency ~chart
distribution spread range histogram variance ~statistics
scatter points against versus correlation dots ~chart
pie share percentage proportion ~chart
heatmap matrix colours grid intensity ~chart
gantt timeline milestones schedule plan roadmap ~project
flowchart process steps decisions workflow procedure ~diagram
process workflow steps procedure ~flow
map geographic geographically location world markers stores atlas ~place
sensor device reading measurement iot thermometer humidity ~signal
signal wave sensor measurements ~frequency
measurement measurements reading value data_point observation ~sensor
frequency spectrum hertz wave fourier ~signal
noise jitter disturbance interference ~signal
report overview statement summary analysis ~document
statistics stats numbers figures metrics analytics ~report
metric number kpi measure indicator ~statistics
secret_key api_key key ~credential
`;
