/** More of computing, by field. */
export const computing = `
backup archive copy snapshot data_loss disaster safety restore dated keep preserve protection recover
directory folder subfolder path tree location nested
file document item binary asset
modified changed touched edited updated altered last_modified
age old ago months recent untouched not_touched stale since
appear arrive land show_up new incoming created drop
wait block until pause watch listen await
chunk part piece fragment segment section slice split
reassemble join put_together original combine restore merge rebuild concatenate stitch
stitch join sew combine concatenate one_after_another sequence together append stack
stack append concatenate pile merge union combine vertical
side_by_side grid collage arrange layout montage sheet next_to
gallery album thumbnails previews photos collection
thumbnail tiny small preview icon mini
scale resize size smaller bigger enlarge shrink dimensions pixels width height
crop cut trim border edge rectangle region area
photo picture image photograph snapshot selfie shot png jpg jpeg heic webp gif tiff bmp graphic
cut_out isolate background backdrop transparent remove_background only_it remains foreground green_screen
identity face bystander person anonymity recognisable unrecognizable pixelate blur
object recognition label content detect classify contains image_recognition vision
same identical similar equal alike match look_alike resemble
video movie film clip footage scene mp4 mkv avi reel trailer
transcode playable play codec convert resolution bitrate device tv television format
subtitle caption srt closed_captions translation
shorten trim cut clip reduce length
audio sound recording voice track mp3 wav podcast
narrate narration read_aloud speak voice_over speech tts audiobook
dictation transcribe written speech_to_text transcript recorded words
tune song melody music hearing listening shazam track piece_of_music
hear hearing listen audio sound
artist singer band musician album composer
digitise digitize scan ocr scanned paper document text_recognition handwriting
web website site page homepage webpage html internet portal
scrape pull crawl extract harvest off_a_website parse
readme markdown md documentation notes formatted
html web_page website markup dom tags
simplify simple plain clean convert
plain simple unformatted raw
slug url_friendly link permalink usable identifier path
link url address permalink hyperlink shortcut
site_health broken dead no_longer_exist missing not_found 404 gone
exist exists missing present there
certificate https tls ssl renew renewal expires expiry cert
renew renewal extend expire expiry
users load traffic concurrent handle capacity throughput requests stress
handle capacity cope manage load
phone mobile desktop tablet device browser computer user_agent
nested fields graphql query api ask
pattern regex regular_expression match catch strings wildcard
string text characters letters
binary bytes ascii base64 printable encode raw
encode encoding base64 escape representation convert
credentials key login password ssh_key access log_in secret authenticate api_key token
log_in login sign_in authenticate access ssh enter
passphrase password secret_phrase random strong
store safely hash bcrypt protect secure salt
cipher encrypt encryption crypto secure aes gpg pgp scramble
security_hole vulnerability cve insecure weakness audit exploit third_party
accidentally leaked mistake unintended committed checked_in exposed
checked_in committed pushed repository commit
modules libraries packages dependencies imports third_party npm pip
legally license licence allowed permitted may_we use copyright open_source
document_my docstring comments documentation describe_functions
method function procedure routine api
parts components modules pieces elements
depend depends dependency rely import relationship each_other
repository repo git github gitlab code_base source_control
added introduced when inserted appeared commit blame
line row code statement
ticket issue bug_report jira crash problem tracker report
crash failure error bug broken exception abort die
triage label classify prioritise sort incoming
bottleneck slow performance hot_spot profiling slowest expensive inefficient
broken failing fail red error regression test wrong
package app container docker image containerise dockerize
app application program software service
cloud aws azure infrastructure terraform setup servers hosting
preview plan dry_run would_change before_applying modifications
modification change alteration difference edit
go_live deploy release launch rollout production update ship publish
terminate kill stop end hanging stuck task process freeze frozen
hang hanging stuck frozen unresponsive deadlock
full almost_full space usage disk capacity hard_drive storage
hard_drive disk ssd storage volume
broker mqtt topic iot message publish subscribe
iot device sensor smart_home mqtt gadget
humid humidity moisture damp sensor
sensor reading measurement device probe thermometer greenhouse
greenhouse garden plants temperature humidity
neighbour nearest closest similar vector
nearest closest neighbour near proximity
semantic meaning similarity embedding
representation vector embedding numeric encoding
numeric number numerical quantity
phrase sentence text words expression
instruction prompt command directive
llm gpt model prompt ai chatbot tokens answers
better best improve superior compare evaluation
mix_up confuse confusion wrong misclassified mistaken classifier errors
classifier classification model predict class label category
news item article story press report headline journalism politics sports
sport sports politics economy topic category subject
mention mentioned named names cited appear
story news article tale narrative
comments reviews opinions feedback remarks customers
like love hate happy dislike satisfied unhappy positive negative feel
segment segmentation cluster group grouping clustering types
demand sales need orders forecast
project forecast predict extrapolate future coming
months coming future next ahead
high_dimensional dimension dimensions plane 2d projection pca umap features
plane 2d flat two_dimensional
suspicious suspiciously unusual strange odd outlier anomaly extreme
high large extreme peak elevated
null missing none nan empty blank
entries records rows items values
tabular table rows columns grid
numbers figures values table digits data
results findings output data outcome
monthly month per_month each_month regular
speed_up accelerate faster optimise slow performance
screen page dashboard display monitor view
multiple several many various
intensity heat colour strength heatmap
circle pie round ring donut
percentage percent share proportion fraction ratio part
over_time time_series trend line history evolution timeline
artistic art picture cloud visual
vocabulary words terms lexicon language
common frequent often usual most
novel book story fiction text literature
novel book isbn author wrote writer title
microservice service backend worker
version_control git svn branch
merge_conflict conflict merge
spreadsheet_formula formula excel
api_documentation openapi swagger
cache redis memory key_value
message_queue kafka rabbitmq queue
firewall port network security
certificate_authority tls ssl
virtual_machine vm server instance
load_balancer proxy nginx traffic
pipeline ci build workflow automation
notebook jupyter python
keyboard mouse monitor device
font typeface typography text
icon symbol image logo
wifi wireless network internet connection
bandwidth speed network internet throughput
website_builder site html css
stylesheet css design layout
search_engine google seo search
seo ranking search_engine keywords website
cookie session browser
captcha bot robot
emoji smiley symbol
unicode character encoding symbol
hash_table dictionary map
array list matrix
integer number int
float decimal number
boolean true_false flag
timestamp time date epoch
duplicate double copy repeated redundant
waste unnecessary wasted redundant
sort order arrange alphabetical
random shuffle arbitrary
`;
